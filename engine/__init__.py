"""What a segment, a record batch, a table file and the ledger are, and how one becomes another.

In: bytes of a broker's log directories, offset ranges. Out: Parquet files, Iceberg commits, record batches.
Imports nothing of ours outside this room.
"""

import os

# Read by numba when it is imported, which happens in the engine's rooms.
os.environ.setdefault(
    "NUMBA_CACHE_LOCATOR_CLASSES",
    "engine.kernels.cache.KernelCacheLocator,UserProvidedCacheLocator,InTreeCacheLocator,UserWideCacheLocator",
)
