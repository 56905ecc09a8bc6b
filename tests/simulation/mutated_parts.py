"""Wrong ways to decide, verify, hold, read and serve: each a patch of our own code (see mutations.py)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np

from engine.broker import PartitionView
from engine.kafka_log import segment_reader
from engine.kafka_log.segment import AbortedBatches, list_segments, read_transaction_index
from engine.reading import log_reader
from engine.table import ledger
from engine.table.catalog import access as catalogs
from engine.table.commit import range_append
from engine.table.commit.session import TableSession
from engine.table.ledger import Outcome
from engine.table.proof import verifier
from engine.table.proof.verifier import VERIFIERS_TOKEN, VerifiedRange, Verifier
from engine.table.topic_table import TopicTable
from serving.log.backend import RemoteSegment
from serving.log.tiered_log import TieredLog
from tests.simulation import mutated_commits
from tiering import planner, range_work, rewrite
from tiering.broker_watch import BrokerWatch
from tiering.cycle import Cycle
from tiering.spool import Spool

Patch = Callable[[], AbstractContextManager[Any]]


def deciding(wrong: Outcome, instead: Outcome) -> Patch:
    """``decide`` with one answer taken for another."""
    right = ledger.decide

    def decide(*args: Any, **named: Any) -> Outcome:
        decision = right(*args, **named)
        return instead if decision is wrong else decision

    return lambda: mock.patch.object(range_append, "decide", decide)


def ledger_end_off_by(step: int) -> Patch:
    right = ledger.extend

    def extend(*args: Any, **named: Any) -> ledger.LedgerEntry:
        entry = right(*args, **named)
        return replace(entry, end=entry.end + step) if entry.end + step > entry.start else entry

    return lambda: mock.patch.object(range_append, "extend", extend)


def ledger_forgets_digests() -> AbstractContextManager[Any]:
    right = ledger.extend

    def extend(entry: ledger.LedgerEntry | None, *, digest: Any, **named: Any) -> ledger.LedgerEntry:
        return replace(right(entry, digest=digest, **named), digest=digest)

    return mock.patch.object(range_append, "extend", extend)


def copied_before_it_is_verified() -> AbstractContextManager[Any]:
    def verified(self: TieredLog, segment: RemoteSegment) -> VerifiedRange | None:
        self.hurry(segment)
        return VerifiedRange(
            topic_id=segment.topic_id, partition=segment.partition, range=segment.range, token=VERIFIERS_TOKEN
        )

    return mock.patch.object(TieredLog, "verified", verified)


def holes_ignored() -> AbstractContextManager[Any]:
    right = Verifier.verified_range

    def verified_range(self: Verifier, table: TopicTable, partition: int, offsets: Any) -> VerifiedRange | None:
        return right(self, replace(table, foreign=None), partition, offsets)

    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(verifier, "first_hole", return_value=None))
    stack.enter_context(mock.patch.object(Verifier, "verified_range", verified_range))
    return stack


def digest_not_compared() -> AbstractContextManager[Any]:
    right = verifier._differences

    def differences(description: Any, found: Any) -> Iterator[str]:
        return (problem for problem in right(description, found) if "the digest" not in problem)

    return mock.patch.object(verifier, "_differences", differences)


def file_not_compared() -> AbstractContextManager[Any]:
    return mock.patch.object(verifier, "_differences", return_value=())


def file_not_read_back() -> AbstractContextManager[Any]:
    return mock.patch.object(range_work, "read_back", mutated_commits.evidence_as_told)


def unlinked_before_it_is_committed() -> AbstractContextManager[Any]:
    right = Cycle.commit

    def commit(self: Cycle, ready: Any) -> None:
        spool = self._parts.hold.spool
        spool.unlink([item.planned.spooled for item in ready if item.planned.spooled is not None])
        right(self, ready)

    return mock.patch.object(Cycle, "commit", commit)


def aborted_transactions_kept() -> AbstractContextManager[Any]:
    return mock.patch.object(AbortedBatches, "holds", return_value=False)


def abort_markers_of_later_segments_missed() -> AbstractContextManager[Any]:
    def aborted(path: Any, wanted: Any) -> Any:
        entries = []
        for segment in list_segments(path.parent):
            if segment.base_offset <= wanted.start:
                entries = list(read_transaction_index(segment.transaction_index_path))
        return range_work.aborted_in(entries, wanted)

    patches = contextlib.ExitStack()
    patches.enter_context(mock.patch.object(range_work, "aborted_transactions", aborted))
    patches.enter_context(mock.patch("tiering.segment_hold.aborted_transactions", aborted))
    return patches


def spool_forgets_aborted_transactions() -> AbstractContextManager[Any]:
    right = Spool.link

    def link(self: Spool, *args: Any, aborted: Any, **named: Any) -> Any:
        return right(self, *args, aborted=(), **named)

    return mock.patch.object(Spool, "link", link)


def high_watermark_taken_for_stable() -> AbstractContextManager[Any]:
    right = BrokerWatch.with_offsets

    def with_offsets(self: BrokerWatch, *args: Any, **named: Any) -> dict[Any, PartitionView]:
        return {
            who: replace(view, last_stable_offset=view.high_watermark)
            for who, view in right(self, *args, **named).items()
        }

    return mock.patch.object(BrokerWatch, "with_offsets", with_offsets)


def closed_taken_for_stable() -> AbstractContextManager[Any]:
    """Whatever is in a closed segment is tiered, replicated or not."""
    right = BrokerWatch.with_offsets

    def with_offsets(self: BrokerWatch, *args: Any, **named: Any) -> dict[Any, PartitionView]:
        return {
            who: replace(view, last_stable_offset=1 << 40, high_watermark=1 << 40) if view.is_answered else view
            for who, view in right(self, *args, **named).items()
        }

    return mock.patch.object(BrokerWatch, "with_offsets", with_offsets)


def reader_skips_the_record_behind_a_gap() -> AbstractContextManager[Any]:
    right = log_reader.inside

    def inside(*args: Any) -> Any:
        found = right(*args)
        gaps = np.flatnonzero(np.diff(found.offset) > 1)
        return found.slice(0, int(gaps[0]) + 1) if len(gaps) else found

    return mock.patch.object(log_reader, "inside", inside)


def reader_forgets_leader_epochs() -> AbstractContextManager[Any]:
    right = log_reader.inside

    def inside(*args: Any) -> Any:
        found = right(*args)
        return replace(found, leader_epoch=np.zeros(len(found), np.int32))

    return mock.patch.object(log_reader, "inside", inside)


def rewrite_forgets_leader_epochs() -> AbstractContextManager[Any]:
    right = rewrite.read_segment

    def read(*args: Any, **named: Any) -> Iterator[Any]:
        for records in right(*args, **named):
            yield replace(records, leader_epoch=np.zeros(len(records), np.int32))

    return mock.patch.object(rewrite, "read_segment", read)


def index_is_believed() -> AbstractContextManager[Any]:
    """Reading begins where Kafka's index says, whatever is there."""

    def go_to(self: Any, position: int) -> None:
        self.position = position

    return mock.patch.object(segment_reader._SegmentScan, "go_to", go_to)


def empty_values_taken_for_null() -> AbstractContextManager[Any]:
    right = rewrite.read_segment

    def read(*args: Any, **named: Any) -> Iterator[Any]:
        for records in right(*args, **named):
            length = np.where(records.value.length == 0, np.int32(-1), records.value.length)
            yield replace(records, value=replace(records.value, length=length))

    return mock.patch.object(rewrite, "read_segment", read)


def names_trusted() -> AbstractContextManager[Any]:
    """A topic that was created again gets the table of the one before it."""

    def load(self: TableSession) -> Any:
        return catalogs.load(self.catalog, self._identifier)

    return mock.patch.object(TableSession, "_load", load)


def log_start_ignored_by_the_planner() -> AbstractContextManager[Any]:
    right = planner._Walk.__init__

    def begin(self: Any, state: Any) -> None:
        view = None if state.view is None else replace(state.view, log_start_offset=0)
        right(self, replace(state, view=view))

    return mock.patch.object(planner._Walk, "__init__", begin)


def stale_view_answers() -> AbstractContextManager[Any]:
    """The door looks at the table once."""
    right = TieredLog._load

    def load(self: TieredLog, topic_id: str) -> TopicTable | None:
        known = self._views.get(topic_id)
        return known.table if known is not None else right(self, topic_id)

    return mock.patch.object(TieredLog, "_load", load)


def covered_taken_for_held() -> AbstractContextManager[Any]:
    """A range that the ledger covers is "copied", whatever the files say."""

    def verified_range(self: Verifier, table: TopicTable, partition: int, offsets: Any) -> VerifiedRange | None:
        entry = table.ledger.get(partition)
        if entry is None or not entry.range.covers(offsets):
            return None
        return VerifiedRange(topic_id=table.topic_id, partition=partition, range=offsets, token=VERIFIERS_TOKEN)

    return mock.patch.object(Verifier, "verified_range", verified_range)


def reader_serves_over_holes() -> AbstractContextManager[Any]:
    from engine.reading.file_index import FileIndex

    def covering(self: FileIndex, table: TopicTable, partition: int, offsets: Any) -> Any:
        return self.files(table, partition).overlapping(offsets)

    return mock.patch.object(FileIndex, "covering", covering)


def batches_leave_gaps_out() -> AbstractContextManager[Any]:
    right = log_reader.encode_batches

    def encode(*args: Any, cover_from: int | None = None, **named: Any) -> Any:
        return right(*args, **named)

    return mock.patch.object(log_reader, "encode_batches", encode)


def failed_range_leaves_the_next_ones() -> AbstractContextManager[Any]:
    """A range whose file failed is left out, those behind it are committed: with skipped offsets that are there."""

    def kept(ready: Any, ranges: Any) -> Any:
        del ranges
        found = []
        for item in ready:
            skipped = replace(item.append.range, start=0, end=item.append.range.start)
            append = replace(item.append, skipped=None if skipped.is_empty else skipped)
            found.append(replace(item, append=append))
        return found

    return mock.patch.object(range_work, "_without_what_follows_a_failure", kept)
