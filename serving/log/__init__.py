"""The log door: what the broker's plugin asks, answered from the table (docs/log_door.md).

In: a segment's topic id, partition and offsets, over HTTP. Out: "verified", record batches, indexes.
Imports the engine; knows neither the other doors nor the tiering loop, whose help comes in as two callables.
"""
