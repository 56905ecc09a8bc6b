"""The JVM that pyspark keeps for its process, whichever session comes: the first one says how it starts."""

from __future__ import annotations

from pyspark import SparkContext

from workers.spark_session import abandon_context

_END_TIMEOUT_SECONDS = 90.0


def end_jvm() -> None:
    """End the JVM of this process, if there is one, and what runs in it: the next session starts one of its own."""
    gateway = SparkContext._gateway
    if gateway is None:
        return
    abandon_context(SparkContext._active_spark_context)
    # The JVM ends with its input.
    gateway.proc.stdin.close()
    gateway.proc.wait(_END_TIMEOUT_SECONDS)
