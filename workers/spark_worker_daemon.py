"""The process that Spark forks its Python workers from, with what the work on files imports already loaded.

Named by ``spark.python.daemon.module``. Importing pyarrow and loading the compiled kernels costs a CPU-second and more;
done here it is paid once and its memory is shared by all workers. Importing starts no thread, so forking stays safe.
"""

from __future__ import annotations

import gc
import sys

_ARCHIVES = (".zip", ".jar")


def _main() -> None:
    # Spark puts archives on the path, and for every task has each of them read again (importlib.invalidate_caches): a
    # tenth of a second. The installed pyspark has all that is in them.
    sys.path[:] = [entry for entry in sys.path if not entry.endswith(_ARCHIVES)]
    for entry in [entry for entry in sys.path_importer_cache if any(ending in entry for ending in _ARCHIVES)]:
        del sys.path_importer_cache[entry]

    from pyspark.daemon import manager

    # Loaded for the workers that are forked from here: the ways in and out of files.
    import engine.kafka_log.segment_reader
    import engine.table.foreign.evidence
    import engine.table.merge.merge_files  # noqa: F401

    # Spark collects garbage after every task: through all that was imported, that takes as long again. What is here
    # now stays for good, so the collector need not look at it, nor unshare its pages by doing so.
    gc.collect()
    gc.freeze()
    manager()


if __name__ == "__main__":
    _main()
