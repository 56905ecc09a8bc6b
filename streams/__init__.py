"""A topic as one stream of columns: history out of the table's files, then what its broker has beyond them.

In: a loaded table, a consumer of the live topic, which columns and rows are wanted, and where to begin. Out: Arrow
record batches by partition, each offset once and in order. Writes nothing; may import the engine only.
"""
