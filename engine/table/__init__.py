"""What a topic's Iceberg table is: columns, Parquet files, the ledger, and the one writer of its commits.

In: records, decoded values, catalog and warehouse settings. Out: data files, commits, proof that a range is stored.
Imports nothing of ours outside the engine.
"""
