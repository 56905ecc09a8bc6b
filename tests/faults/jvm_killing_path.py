"""A segment that kills Spark's JVM when a worker opens it, as the kernel does when the machine has no memory left."""

from __future__ import annotations

from pathlib import PosixPath
from typing import IO, Any

import psutil


def is_spark(process: psutil.Process) -> bool:
    """Whether a process is Spark's JVM; one that has ended and still waits to be collected is not."""
    try:
        return "org.apache.spark.deploy.SparkSubmit" in process.cmdline()
    except psutil.NoSuchProcess:
        return False


class JvmKillingPath(PosixPath):
    """Importable by Spark's workers, which unpickle it. Harmless once a file ``<path>.harmless`` is there."""

    def open(self, *args: Any, **options: Any) -> IO[Any]:  # type: ignore[override]
        if not self.with_name(f"{self.name}.harmless").exists():
            for parent in psutil.Process().parents():
                if is_spark(parent):
                    parent.kill()
        return super().open(*args, **options)
