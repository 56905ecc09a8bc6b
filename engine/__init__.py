"""What a segment, a record batch, a table file and the ledger are, and how one becomes another.

In: bytes of a broker's log directories, offset ranges. Out: Parquet files, Iceberg commits, record batches.
Imports nothing of ours outside this room.
"""

import os

_CPU_INFO = "/proc/cpuinfo"
_FIRST_CPU_BYTES = 8192
_X86_64_V3 = frozenset(("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"))
"""Linux's names for what makes a processor one of x86-64-v3 (System V ABI, AMD64 supplement): nearly all since 2013."""


def _is_x86_64_v3() -> bool:
    try:
        with open(_CPU_INFO, encoding="ascii", errors="replace") as file:  # noqa: PTH123  # pathlib is slow to import
            first = file.read(_FIRST_CPU_BYTES)
    except OSError:
        return False
    flags = next((line for line in first.splitlines() if line.startswith("flags")), "")
    return frozenset(flags.split()) >= _X86_64_V3


# Read by numba when it is imported, which happens in the engine's rooms.
os.environ.setdefault("NUMBA_CACHE_LOCATOR_CLASSES", "engine.kernels.cache.KernelCacheLocator")
if "NUMBA_CPU_NAME" not in os.environ and _is_x86_64_v3():
    # Code for one processor runs on no other, and could neither be packed nor live in an image.
    os.environ["NUMBA_CPU_NAME"] = "x86-64-v3"
    os.environ.setdefault("NUMBA_CPU_FEATURES", "")
