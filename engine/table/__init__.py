"""What a topic's Iceberg table is: columns, ledger, manifests, seal; in rooms of their own its rows, proof and commits.

In: records, decoded values, catalog and warehouse settings. Out: data files, commits, proof that a range is stored.
Imports nothing of ours outside the engine.
"""
