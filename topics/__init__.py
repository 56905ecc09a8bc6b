"""What the loops that write know of a topic in common: its rule, its schemas, the state of its partitions.

In: settings, schema sources, tables. Out: plain values, and columns added through the table writer. Imports the engine
only; tiering and compaction stand on it, which may not import each other.
"""
