"""The page's head in words: what is sent in the page and what its script puts there later are the same texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from serving.status.backlog import backlog_line
from serving.status.daemon_status import DaemonStatus
from serving.status.page import count_text, duration_text, size_text

NONE = "\N{EN DASH}"
"""In place of an amount that is not known."""


def daemon_texts(status: DaemonStatus) -> dict[str, str]:
    """By the names that the template has for them."""
    commits, memory = count_text(status.commit_count, "commit"), size_text(sum(status.memory_bytes.values()))
    return {
        "version": status.version,
        "health": "healthy" if status.is_healthy else "needs a look",
        "life": f"{status.phase} for {duration_text(status.uptime_ms)}",
        "backlog": "" if status.backlog is None else f"A backlog: {backlog_line(status.backlog)}",
        "cluster": status.cluster_id or "not known yet",
        "since_start": f"{commits} since the start · {memory} of memory",
    }


def total_texts(
    totals: Mapping[str, Any], day: Mapping[str, int], *, now_ms: int, are_sizes_known: bool
) -> dict[str, str]:
    """``totals`` as ``overview.totals_of`` has them; ``are_sizes_known``: whether tables' files were looked at."""
    log_bytes, file_bytes = day["log_bytes"], day["file_bytes"]
    rate, rate_bytes, waits_since_s = (totals[name] for name in ("records_per_s", "bytes_per_s", "waits_since_s"))
    waits = "nothing waits"
    if waits_since_s is not None:
        waits = f"the oldest for {duration_text(now_ms - waits_since_s * 1000)}"
    return {
        "stored": f"{totals['stored']:,}",
        "stored_more": f"{count_text(totals['topics'], 'topic')}, {count_text(totals['partitions'], 'partition')}",
        "lag": f"{totals['local']:,}",
        "lag_more": f"{totals['behind']:,} behind" if totals["behind"] else waits,
        "rate": NONE if rate is None else f"{rate:,.0f}" if rate >= 100 else f"{rate:,.1f}".removesuffix(".0"),
        "rate_more": "over the last half minute" if rate_bytes is None else f"{size_text(rate_bytes)} of log a second",
        # Files of a few records are larger than these are in the log, until compaction merges them.
        "saved": NONE
        if not log_bytes
        else "nothing yet"
        if file_bytes >= log_bytes
        else f"{1 - file_bytes / log_bytes:.0%}",
        "saved_more": f"{size_text(log_bytes)} of log, {size_text(file_bytes)} of Parquet in a day",
        "table": size_text(totals["live_bytes"]) if are_sizes_known else NONE,
        "table_more": f"{size_text(totals['local_log_bytes'])} in the local log",
    }
