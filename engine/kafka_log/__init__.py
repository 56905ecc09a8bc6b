"""A broker's log directories: what is in them, and how batches of format v2 become records and records batches.

In: paths of log directories and segment files, ``Records``. Out: ``Records``, record batches, checkpoints.
Imports from ``engine`` only the values every room shares; knows nothing of tables.
"""
