"""The Spark context of the daemon: small, quiet, and able to import what this program is made of."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException

from engine.errors import Unavailable

_ROOT = Path(__file__).resolve().parent.parent
_log = structlog.get_logger(__name__)
_LOG_SETTINGS = Path(__file__).with_name("spark_log4j2.properties")

MAX_TASK_TRIES = 2
"""A worker may be killed for no fault of its task's (memory, an operator); the second time it is the task's."""


SPARK_OPEN_FILES = 340
"""What a Spark at rest has open: its 287 jars, and a few connections."""

LEAST_OPEN_FILES = 1024
"""A lower limit is the likely reason for a Spark that does not start; it is what a shell has by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """``master`` as Spark names it; ``conf`` wins over every setting made here; ``java_home`` None takes the PATH's.

    ``kernel_cache`` is where compiled kernels are kept; the workers must be able to write there.
    """

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    driver_memory_mb: int = 512
    java_home: Path | None = None
    kernel_cache: Path | None = None


def spark_conf(settings: SparkSettings) -> dict[str, str]:
    """Every setting of the session, the operator's last."""
    java_options = (
        # One task a core and short jobs: the collector's and compiler's own threads would cost more than they save.
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:CICompilerCount=1",
        "-Xss512k",
        "-XX:MaxMetaspaceSize=256m",
        f"-Dlog4j2.configurationFile={_LOG_SETTINGS}",
    )
    conf = {
        "spark.master": _with_task_tries(settings.master),
        "spark.app.name": "floeberg",
        "spark.driver.memory": f"{settings.driver_memory_mb}m",
        "spark.driver.extraJavaOptions": " ".join(java_options),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.task.maxFailures": str(MAX_TASK_TRIES),
        "spark.cleaner.periodicGC.interval": "10min",
        "spark.ui.retainedJobs": "1",
        "spark.ui.retainedStages": "1",
        "spark.ui.retainedTasks": "64",
        "spark.python.daemon.module": "workers.spark_worker_daemon",
        "spark.python.worker.reuse": "true",
        "spark.python.worker.faulthandler.enabled": "true",
        "spark.executorEnv.PYTHONPATH": _python_path(),
        # glibc gives every thread an arena that keeps what it once had; two keep a worker's memory flat.
        "spark.executorEnv.MALLOC_ARENA_MAX": "2",
        # A block of records is taken and given back hundreds of times a segment. Kept by the worker (150 MB) instead of
        # handed to the kernel and faulted in again, it saves a twentieth of the CPU; the trim bounds what is kept.
        "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(64 << 20),
        "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(256 << 20),
        # The same for Arrow's own allocator, which hands memory back 10 ms after it was freed: 0.2 CPU-seconds a GiB on
        # a quiet machine, 1 on a busy one. A worker then stays at its highest mark, 80 MB above what it had.
        "spark.executorEnv.MIMALLOC_PURGE_DELAY": "-1",
        "spark.executorEnv.OMP_NUM_THREADS": "1",
        "spark.executorEnv.ARROW_IO_THREADS": "2",
    }
    if settings.kernel_cache is not None:
        conf["spark.executorEnv.NUMBA_CACHE_DIR"] = str(settings.kernel_cache)
    return {**conf, **settings.conf}


def start_context(settings: SparkSettings) -> Any:
    """The process's SparkContext. Raises Unavailable with the next step when Spark does not start."""
    environment = os.environ
    environment["PYSPARK_PYTHON"] = environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
    environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if settings.java_home is not None:
        environment["JAVA_HOME"] = str(settings.java_home)
    try:
        return SparkContext.getOrCreate(SparkConf(loadDefaults=False).setAll(list(spark_conf(settings).items())))
    except (PySparkException, Py4JError, OSError, EOFError) as error:
        raise _not_started(error) from error


def _not_started(error: Exception) -> Unavailable:
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed < LEAST_OPEN_FILES:
        # The JVM says so on standard error at best; what arrives here is that it is gone.
        return Unavailable(
            f"Spark does not start: the limit of {allowed} open files is too low, its JVM alone needs about "
            f"{SPARK_OPEN_FILES}",
            next_step=f"ulimit -n 65536, or LimitNOFILE=65536 in the unit; {LEAST_OPEN_FILES} is the least",
        )
    return Unavailable(
        f"Spark does not start: {error}",
        next_step="check that a JDK 17 or newer is installed, and what [spark.conf] sets: floeberg check",
    )


def is_alive(context: Any) -> bool:
    """False when the JVM is gone or has stopped the context (out of memory, killed)."""
    try:
        return not context._jsc.sc().isStopped()
    except (Py4JError, OSError, AttributeError):
        return False


def abandon_context(context: Any) -> None:
    """Let go of a context whose JVM is gone, so that a new one can be started; pyspark itself keeps the dead one."""
    try:
        context.stop()
    except (Py4JError, OSError, AttributeError) as error:
        _log.info("spark_was_gone", error=str(error))
    gateway = SparkContext._gateway
    with SparkContext._lock:
        SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    if gateway is not None:
        gateway.shutdown()


def _with_task_tries(master: str) -> str:
    """Local mode takes the number of tries from the master's name alone: ``local[4]`` becomes ``local[4,2]``."""
    if master == "local":
        return f"local[1,{MAX_TASK_TRIES}]"
    if master.startswith("local[") and "," not in master:
        return f"{master[:-1]},{MAX_TASK_TRIES}]"
    return master


def _python_path() -> str:
    # The workers' interpreter is this one, yet a checkout that was never installed is on this process's path only.
    given = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join([str(_ROOT), *filter(None, [given])])
