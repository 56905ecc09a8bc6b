"""What moves the ledger's end: ranges that are appended, each decided against its partition's line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from engine.errors import Invalid
from engine.offset_range import OffsetRange
from engine.parquet.settings import ParquetSettings
from engine.records.digest import EMPTY_DIGEST, RangeDigest
from engine.table.commit.change import Change, Decision, SnapshotUpdate
from engine.table.ledger import (
    LEDGER_PREFIX,
    LedgerEntry,
    Outcome,
    decide,
    extend,
    moved_log_starts,
    ranges_to_json,
)
from engine.table.proof.verifier import VerifiedFile
from engine.table.properties import EMPTY_PREFIX, RANGE_PREFIX, SKIPPED_PREFIX
from engine.table.sealed_snapshot import AppendFiles
from engine.table.states import check_newest
from engine.table.topic_table import TopicTable


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeAppend:
    """A range of one partition that is ready for the table.

    ``file`` the verified file with its records, None where the range holds none; ``digest`` of the log's records in
    the range; ``leader_epoch`` the epoch the append acts under; ``skipped`` offsets right before the range that Kafka
    deleted before anybody could store them. Raises Invalid where the file is of another range or digest.
    """

    partition: int
    range: OffsetRange
    leader_epoch: int
    digest: RangeDigest
    file: VerifiedFile | None
    skipped: OffsetRange | None = None

    def __post_init__(self) -> None:
        if self.file is None:
            if self.digest != EMPTY_DIGEST:
                raise Invalid(f"{self.digest.record_count} records of {self.range} have no file")
            return
        description = self.file.description
        same = (
            description.partition == self.partition
            and description.range == self.range
            and description.digest == self.digest
        )
        if not same:
            raise Invalid(
                f"a file of {description.range} is to be added as {self.range}",
                topic=description.topic,
                partition=self.partition,
                file=description.path,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendResult:
    """One append and what became of it."""

    append: RangeAppend
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """``results`` in the order the appends were given; ``table`` as it is after the commit."""

    table: TopicTable
    results: tuple[AppendResult, ...]


class AppendRanges(Change):
    """``settings``: the encodings the files were written with, stored unless the table remembers as much already;
    ``log_starts`` by partition, recorded where something is appended."""

    producer = AppendFiles

    def __init__(
        self,
        appends: Sequence[RangeAppend],
        settings: ParquetSettings | None = None,
        log_starts: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        self._appends = tuple(appends)
        self._settings = settings
        self._log_starts = log_starts
        self.partitions = frozenset({*(append.partition for append in appends), *log_starts})

    def decide(self, table: TopicTable) -> Decision:
        """Every append, those of one partition in offset order and each on top of the ones before it."""
        outcomes: dict[int, Outcome] = {}
        ledger: dict[int, LedgerEntry] = {}
        accepted: list[RangeAppend] = []
        for index, one in sorted(enumerate(self._appends), key=lambda item: (item[1].partition, item[1].range.start)):
            entry = ledger.get(one.partition, table.ledger.get(one.partition))
            outcome = decide(entry, added=one.range, leader_epoch=one.leader_epoch, skipped=one.skipped)
            outcomes[index] = outcome
            if outcome is Outcome.COMMITTED:
                ledger[one.partition] = extend(entry, added=one.range, leader_epoch=one.leader_epoch, digest=one.digest)
                accepted.append(one)
        if any(append.skipped is not None for append in accepted):
            check_newest(table)
        return Decision(
            outcomes_if_committed=tuple(outcomes[index] for index in range(len(self._appends))),
            update=self._update(table, accepted, ledger) if accepted else None,
            is_refused=not {Outcome.COMMITTED, Outcome.ALREADY_THERE}.issuperset(outcomes.values()),
        )

    def _update(
        self, table: TopicTable, accepted: Sequence[RangeAppend], ledger: dict[int, LedgerEntry]
    ) -> SnapshotUpdate:
        summary = {}
        moved = moved_log_starts({**table.ledger, **ledger}, self._log_starts)
        properties = {f"{LEDGER_PREFIX}{partition}": line.to_json() for partition, line in {**ledger, **moved}.items()}
        for partition in ledger:
            added = [append for append in accepted if append.partition == partition]
            summary[f"{RANGE_PREFIX}{partition}"] = ranges_to_json(append.range for append in added)
            empty = [append.range for append in added if append.file is None]
            if empty:
                properties[f"{EMPTY_PREFIX}{partition}"] = ranges_to_json([*table.empty.get(partition, ()), *empty])
            skipped = [_bridged(table, append) for append in added if append.skipped is not None]
            if skipped:
                known = table.skipped.get(partition, ())
                properties[f"{SKIPPED_PREFIX}{partition}"] = ranges_to_json([*known, *skipped])
        if self._settings is not None and self._settings != table.settings:
            properties |= self._settings.to_properties()
        files = tuple(append.file.description for append in accepted if append.file is not None)
        return SnapshotUpdate(summary=summary, properties=properties, added=files)


def _bridged(table: TopicTable, append: RangeAppend) -> OffsetRange:
    """The skipped offsets that are truly missing: those from the ledger's end on."""
    assert append.skipped is not None, "only an append that skips offsets bridges a gap"
    entry = table.ledger.get(append.partition)
    start = append.skipped.start if entry is None else max(append.skipped.start, entry.end)
    return OffsetRange(start=min(start, append.skipped.end), end=append.skipped.end)
