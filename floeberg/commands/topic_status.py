"""All that is known of one topic, partition by partition, for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from serving.status.page import duration_text, size_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from topics.partition_status import PartitionStatus


def topic_in_detail(
    topic: str, partitions: Sequence[PartitionStatus], *, daemon_runs: bool, now_ms: int
) -> Iterator[RenderableType]:
    """The topic in a line, then the facts of each partition, a line each; what is nothing is left out."""
    tables = sorted({partition.table for partition in partitions if partition.table is not None})
    rows = sum(partition.rows for partition in partitions)
    head = f"{topic}: {len(partitions):,} partitions, table {', '.join(tables) or 'none yet'}"
    if daemon_runs:
        lag = sum(partition.lag_records for partition in partitions)
        local_bytes = sum(partition.local_log_bytes for partition in partitions)
        head += f", lag {lag:,} records, {size_text(local_bytes)} in the local log"
    else:
        head += f", {rows:,} rows"
    yield Text(head, style="bold")
    for partition in partitions:
        yield Text(f"partition {partition.partition}", style="bold")
        facts = Table(box=None, show_header=False, padding=(0, 0, 0, 2))
        facts.add_column()
        facts.add_column(overflow="fold")
        for name, fact in _facts(partition, daemon_runs=daemon_runs, now_ms=now_ms):
            facts.add_row(name, fact)
        yield facts


def _facts(partition: PartitionStatus, *, daemon_runs: bool, now_ms: int) -> Iterator[tuple[str, str | Text]]:
    start, end = offset_text(partition.tiered_start), offset_text(partition.tiered_end)
    yield "in the table", "nothing yet" if partition.tiered_end is None else f"{start} to {end}"
    if partition.log_start is not None:
        yield "log start", offset_text(partition.log_start)
    if partition.stream_start is not None:
        yield "consumers", f"from {offset_text(partition.stream_start)} on"
    if partition.table_start is not None:
        yield "SQL", f"from {offset_text(partition.table_start)} on"
    if partition.next_to_leave is not None:
        yield "leaves SQL next", leaving_text(partition, now_ms)
    if not daemon_runs:
        yield "rows", f"{partition.rows:,}"
    if partition.reason_rows:
        awaiting = f", of which {partition.awaiting_rows:,} await a schema" if partition.awaiting_rows else ""
        yield "bytes kept", f"{partition.reason_rows:,} rows{awaiting}"
    if not daemon_runs:
        return
    yield "mode", f"{'native' if partition.native else 'watch'}{'' if partition.leader_here else ', led elsewhere'}"
    yield "values", partition.value_format or "their format is not known yet"
    yield "stable in Kafka", f"up to {offset_text(partition.stable_end)}"
    waits = f", the oldest for {duration_text(partition.lag_ms)}" if partition.lag_ms else ""
    late = f"; {partition.behind_records:,} should be there, since {duration_text(partition.behind_ms)}"
    yield "lag", f"{partition.lag_records:,} records{waits}{late if partition.behind_ms else ''}"
    yield "local log", size_text(partition.local_log_bytes)
    if partition.spool_bytes:
        yield "spool", size_text(partition.spool_bytes)
    since_start = f"{partition.rows:,} rows, {partition.raw_rows:,} with their bytes beside the columns"
    if partition.undecodable_rows:
        since_start += f", {partition.undecodable_rows:,} without columns"
    yield "since the start", since_start
    if partition.skipped_offsets:
        yield "skipped", f"{partition.skipped_offsets:,} offsets that Kafka deleted before they were in the table"
    if partition.refusals:
        yield "refused", f"{partition.refusals:,} ranges: {partition.last_refusal}"
    if partition.copied_end is not None or partition.copy_wait_ms:
        waits = f", waiting for {duration_text(partition.copy_wait_ms)}" if partition.copy_wait_ms else ""
        yield "asked for copies", f"up to {offset_text(partition.copied_end)}{waits}"
    state = state_text(partition)
    if state:
        yield "state", state


def leaving_text(partition: PartitionStatus, now_ms: int) -> str:
    """Which offsets leave the table next, and when or why not."""
    due_ms = partition.leaves_at_ms
    when = "" if due_ms is None else f" for {duration_text(max(0, due_ms - now_ms))} more"
    return f"{partition.next_to_leave}{when}"


def offset_text(offset: int | None) -> str:
    return "-" if offset is None else f"{offset:,}"


def state_text(partition: PartitionStatus) -> Text:
    if partition.problem:
        return Text(partition.problem, style="red")
    if partition.at_risk_bytes:
        return Text(f"{size_text(partition.at_risk_bytes)} at risk: the spool is full", style="red")
    return Text(partition.waiting or "", style="dim")
