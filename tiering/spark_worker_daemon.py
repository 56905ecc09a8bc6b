"""The process that Spark forks its Python workers from, with everything a rewrite imports already loaded.

Named by ``spark.python.daemon.module``. Importing pyarrow and loading the compiled kernels costs a CPU-second and more;
done here it is paid once and its memory is shared by all workers. Importing starts no thread, so forking stays safe.
"""

from __future__ import annotations

from pyspark.daemon import manager

import tiering.rewriter  # noqa: F401 - loaded for the workers that are forked from here

if __name__ == "__main__":
    manager()
