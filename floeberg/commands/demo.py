"""``floeberg demo``: the whole path on a real broker, in under three minutes."""

from __future__ import annotations

import signal
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from floeberg.console import out
from floeberg.demo.options import ORDER_COUNT, DemoOptions


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything running, and say how to stop it.")] = False,
    records: Annotated[int, typer.Option(min=10_000, help="Orders to produce.")] = ORDER_COUNT,
    directory: Annotated[Path | None, typer.Option(help="An empty folder; a temporary one without.")] = None,
    spark_sql: Annotated[bool, typer.Option(help="Also query with Spark (some 15 s).")] = True,
) -> None:
    """Start a broker, produce a million orders, tier them, read them back by offset and by SQL, prove it."""
    from floeberg.demo.story import run_demo

    # SIGTERM, as a CI job gets it, ends the demo as Ctrl-C does: with everything it started.
    signal.signal(signal.SIGTERM, _interrupt)
    run_demo(DemoOptions(keep=keep, order_count=records, directory=directory, with_spark_sql=spark_sql), out)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
