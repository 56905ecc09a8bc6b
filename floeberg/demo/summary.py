"""The end of the demo: what was seen, in figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.panel import Panel
from rich.table import Table

from floeberg.demo.orders import ProducedOrders
from floeberg.demo.read_back import ReadBack
from serving.status.page import size_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Everything the summary is made of. ``log_bytes``: all segments the producer filled, dropped ones included."""

    produced: ProducedOrders
    read: ReadBack
    tiering_seconds: float
    log_bytes: int
    local_log_bytes: int
    table_bytes: int
    table_records: int
    file_count: int
    commit_count: int
    memory_bytes: int
    chapter_seconds: Mapping[str, float]
    elapsed_seconds: float


def show_summary(console: Console, outcome: Outcome) -> None:
    """Print the panel."""
    produced, read = outcome.produced, outcome.read
    facts = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    facts.add_column(style="bold")
    facts.add_column(justify="right")
    facts.add_column(style="dim")
    facts.add_row(
        "produced",
        f"{produced.record_count:,} orders",
        f"{produced.record_count / produced.seconds:,.0f} a second, {size_text(produced.value_bytes)} of Avro",
    )
    facts.add_row("Kafka's log (zstd)", size_text(outcome.log_bytes), "all segments that were written")
    facts.add_row("still on the broker", size_text(outcome.local_log_bytes), "the open segments")
    share = outcome.table_bytes / max(1, outcome.log_bytes)
    facts.add_row(
        "in the table",
        size_text(outcome.table_bytes),
        f"{outcome.table_records:,} records in {outcome.file_count} Parquet files, {outcome.commit_count} commits;"
        f" {share:.0%} of the log's size",
    )
    facts.add_row(
        "tiered and dropped in",
        f"{outcome.tiering_seconds:.1f} s",
        "after the producer had finished; each file read back and compared before the broker was told",
    )
    facts.add_row(
        "read by the consumer",
        f"{read.record_count:,} records",
        f"{read.record_count / read.seconds:,.0f} a second, {read.tiered_count:,} of them out of Parquet",
    )
    if outcome.memory_bytes:
        facts.add_row("the daemon", size_text(outcome.memory_bytes), "of memory, its Spark included")
    console.print()
    console.print(Panel(facts, title="[bold]One copy, two doors[/bold]", title_align="left", expand=False))
    times = ", ".join(f"{title.split(':')[0].split(';')[0]} {seconds:.0f} s" for title, seconds in _longest(outcome))
    console.print(f"  [dim]{outcome.elapsed_seconds:.0f} s in all: {times}[/dim]", soft_wrap=True)
    console.print("\n  [bold]Next[/bold]")
    console.print("    make demo KEEP=1          the same, left running, with the commands to play with it")
    console.print("    examples/floeberg.toml    the settings for your own broker: two lines are enough")
    console.print("    floeberg check            tries them, and says what to mend")


def _longest(outcome: Outcome) -> list[tuple[str, float]]:
    return sorted(outcome.chapter_seconds.items(), key=lambda item: -item[1])[:4]
