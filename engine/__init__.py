"""What a segment, a record batch, a table file and the ledger are, and how one becomes another.

In: bytes of a broker's log directories, offset ranges. Out: Parquet files, Iceberg commits, record batches.
Imports nothing of ours outside this room.
"""
