"""What is known of a partition at one moment: the plain values that tiering reports and that people are shown."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """One partition. Offsets are None where they are not known, ``value_format`` while it is still to be found.

    ``tiered_end`` the first offset not in the table; ``stable_end`` the first one that is not committed in Kafka;
    ``lag_ms`` how long the oldest stable record beyond ``tiered_end`` has waited, as this process saw it, 0 when none
    waits; ``behind_ms`` how long it should have been in the table: what may wait, for freshness or in an open segment,
    is not behind. ``ready_segments`` are closed, stable and not wholly in the table, with ``ready_bytes`` in them.
    ``open_bytes`` of the segment whose end records wait for, which Kafka closes at ``open_limit_bytes``
    or with the first record from ``closes_at_ms`` on, by the machine's clock. The rows are counted since the daemon
    started: ``raw_rows`` kept their bytes beside typed columns, ``undecodable_rows`` have no typed columns; so are
    ``skipped_offsets``, which Kafka deleted before they were tiered, and the ``log_bytes`` of batches that became
    ``file_bytes`` of Parquet.
    ``reason_rows`` of the table, whenever they came, keep their bytes with the reason in ``kafka_error``; the
    ``awaiting_rows`` among them miss a schema, and get columns once it is there.
    ``refusals`` are ranges that the table did not take since the start, since another daemon was first;
    ``last_refusal`` says of the last one why.
    ``copied_end``: how far the broker has asked for copies and they were safe, since the daemon started;
    ``copy_wait_ms`` how long it has asked for none while closed segments that are in the table wait for it.
    ``verified_start`` to ``verified_end`` this process has read back from the warehouse and found to be the log's.
    ``stream_start`` and ``table_start``: the horizons as the table has them; ``next_to_leave`` which offsets leave the
    table next, or why they stay, ``leaves_at_ms`` (since the epoch) when they do, where that is known.
    ``waiting_kind`` and ``problem_kind`` name in one word what ``waiting`` and ``problem`` say.
    """

    topic: str
    partition: int
    table: str | None = None
    value_format: str | None = None
    native: bool = False
    leader_here: bool = True
    tiered_start: int | None = None
    tiered_end: int | None = None
    stable_end: int | None = None
    log_start: int | None = None
    lag_ms: int = 0
    behind_ms: int = 0
    ready_segments: int = 0
    ready_bytes: int = 0
    open_bytes: int = 0
    open_limit_bytes: int | None = None
    closes_at_ms: int | None = None
    waiting: str | None = None
    waiting_kind: str | None = None
    problem: str | None = None
    problem_kind: str | None = None
    spool_bytes: int = 0
    at_risk_bytes: int = 0
    local_log_bytes: int = 0
    rows: int = 0
    log_bytes: int = 0
    file_bytes: int = 0
    raw_rows: int = 0
    undecodable_rows: int = 0
    skipped_offsets: int = 0
    reason_rows: int = 0
    awaiting_rows: int = 0
    refusals: int = 0
    last_refusal: str | None = None
    copied_end: int | None = None
    copy_wait_ms: int = 0
    verified_start: int | None = None
    verified_end: int | None = None
    stream_start: int | None = None
    table_start: int | None = None
    next_to_leave: str | None = None
    leaves_at_ms: int | None = None

    @property
    def lag_records(self) -> int:
        """Stable offsets that are not in the table."""
        if self.stable_end is None:
            return 0
        return max(0, self.stable_end - (self.tiered_end or 0))

    @property
    def behind_records(self) -> int:
        """Of these, those that should be there: all of them, once the oldest should."""
        return self.lag_records if self.behind_ms else 0

    @property
    def open_records(self) -> int:
        """Of these, those that may wait."""
        return self.lag_records - self.behind_records
