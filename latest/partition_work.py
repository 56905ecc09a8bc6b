"""One partition of a ``__latest`` table: its next step taken, as far as the commit that it needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import structlog
from numpy.typing import NDArray
from pyiceberg.manifest import DataFile

from engine.errors import Corrupt
from engine.offset_range import OffsetRange
from engine.table.commit.latest_files import PartitionNaming
from engine.table.data_file import FileName
from engine.table.latest.delete_file import read_positions, write_delete_file
from engine.table.latest.keyed_rows import KeyedFiles, StreamFile, newest_of
from engine.table.latest.named_files import NamedFile, PartitionNames, described_files
from engine.table.latest_line import LatestLine
from engine.table.topic_table import TopicTable
from engine.topic_partition import TopicIdPartition
from latest.key_fold import Fold, folds
from latest.key_index import Folded, KeyIndex
from latest.latest_limits import LatestLimits
from latest.planner import (
    FilePlan,
    PartitionPlan,
    PartitionState,
    Step,
    plan_files,
    plan_partition,
    visible,
)

_log = structlog.get_logger(__name__)

NO_EPOCH = -1
"""Of a data file that another program wrote."""

_ALL = 2**62
"""Rows: the plan has said how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What one partition needs of the next commit, and ``fold``, which goes into the index after it; None where the
    index has it. ``rows`` that were taken in."""

    files: PartitionNaming
    fold: Fold | None
    rows: int


class _LostRows(Exception):
    """What is visible is to be found out from the topic's table alone."""


@contextmanager
def _named_rows() -> Iterator[None]:
    """What only the ``__latest`` table names, and may be damaged or gone, is read inside."""
    try:
        yield
    except Corrupt as error:
        raise _LostRows(str(error)) from error


@dataclass(slots=True, kw_only=True)
class _Made:
    """Filled file by file: ``named`` data files that come, each with the manifest that lists it."""

    going: list[NamedFile]
    named: dict[str, str | None] = field(default_factory=dict)
    deletes: list[DataFile] = field(default_factory=list)


class PartitionWork:
    """For one thread and one state of both tables. ``attempt`` names the delete files and the line."""

    def __init__(
        self,
        *,
        stream: TopicTable,
        latest: TopicTable,
        index: KeyIndex,
        limits: LatestLimits,
        attempt: str,
    ) -> None:
        self._stream = stream
        self._latest = latest
        self._index = index
        self._limits = limits
        self._attempt = attempt
        self._reader = KeyedFiles(stream)
        self._written = 0
        self._pruned: dict[int, int] = {}

    def prepare(self, partition: int, files: Sequence[StreamFile], named: PartitionNames) -> Prepared | None:
        """None where the table is as it should be. Raises Corrupt, Unavailable.

        The index may have been caught up, or forgotten, on the way.
        """
        of = TopicIdPartition(topic=self._stream.topic, topic_id=self._stream.topic_id, partition=partition)
        # A line says nothing of files that another program changed.
        line = self._latest.lines.get(partition) if self._latest.foreign is None else None
        # What was erased may have been newer than what is left.
        line_end = line.end if line is not None and line.erased == self._erased(partition) else None
        while True:
            plan = self._plan(of, files, named, line_end)
            if plan.forgets:
                self._index.forget(of)
            match plan.step:
                case Step.NOTHING:
                    return None
                case Step.CATCH_UP:
                    self._fold_in(of, files, plan.fold)
                case Step.BUILD:
                    rows = self._fold_in(of, files, plan.fold)
                    return self._built(of, files, named, plan, line, rows)
                case Step.ADVANCE:
                    try:
                        return self._advanced(of, files, named, plan, line)
                    except _LostRows as lost:
                        _log.warning("latest_is_built_again", topic=of.topic, partition=partition, why=str(lost))
                        self._index.forget(of)
                        line_end = None

    def _plan(
        self, of: TopicIdPartition, files: Sequence[StreamFile], named: PartitionNames, line_end: int | None
    ) -> PartitionPlan:
        known = self._index.folded(of)
        if known is not None and known.erased != self._erased(of.partition):
            self._index.forget(of)
            known = None
        line = self._stream.ledger[of.partition]
        if known is not None and line.table_start - known.pruned > line.end - line.table_start:
            # As much has left the table as it has: keys that come once would fill the disk.
            known = replace(known, pruned=line.table_start)
            self._index.prune(of, known)
        self._pruned[of.partition] = 0 if known is None else known.pruned
        state = PartitionState(
            folded=None if known is None else known.end,
            line_end=line_end,
            stream_end=line.end,
            files=tuple(files),
            named=named,
        )
        return plan_partition(state, fold_rows=self._limits.fold_rows, build_factor=self._limits.build_factor)

    def _fold_in(self, of: TopicIdPartition, files: Sequence[StreamFile], wanted: OffsetRange) -> int:
        rows = 0
        for fold in folds(self._reader, files, wanted, self._limits.fold_rows):
            self.note(of.partition, fold)
            rows += fold.rows
        return rows

    def note(self, partition: int, fold: Fold) -> None:
        """The index knows a fold. Raises Unavailable."""
        of = TopicIdPartition(topic=self._stream.topic, topic_id=self._stream.topic_id, partition=partition)
        pruned = self._pruned[partition]
        folded = Folded(end=fold.range.end, erased=self._erased(partition), pruned=pruned)
        self._index.write(of, folded=folded, keys=fold.keys, offsets=fold.offsets, is_shown=fold.is_shown)

    def _erased(self, partition: int) -> int:
        erased = self._stream.erased.get(partition)
        return 0 if erased is None else erased.record_count

    def _line(self, partition: int, plan: PartitionPlan) -> LatestLine:
        return LatestLine(
            end=plan.until,
            stream_snapshot=self._stream.snapshot_id,
            attempt=self._attempt,
            erased=self._erased(partition),
        )

    def _built(
        self,
        of: TopicIdPartition,
        files: Sequence[StreamFile],
        named: PartitionNames,
        plan: PartitionPlan,
        line: LatestLine | None,
        rows: int,
    ) -> Prepared:
        """Every file looked through: visible is what the index has."""
        made = _Made(going=list(named.others))
        for file in files:
            shown = np.sort(np.concatenate([np.empty(0, np.int64), *self._looked_up(of, file, plan.until)]))
            offsets = self._reader.offsets(file)
            self._name(made, file, named, ~np.isin(offsets, shown), None)
        self._drop_gone(made, files, named)
        return Prepared(files=self._settled(made, line, self._line(of.partition, plan)), fold=None, rows=rows)

    def _looked_up(self, of: TopicIdPartition, file: StreamFile, until: int) -> list[NDArray[np.int64]]:
        shown = []
        for rows in self._reader.rows(file):
            wanted = (rows.offset < until) & rows.key.is_valid().to_numpy(zero_copy_only=False)
            keys, offsets = newest_of([(rows.key.filter(wanted), rows.offset[wanted])])
            shown.append(offsets[self._index.newest(of, keys.to_pylist()) == offsets])
        return shown

    def _advanced(
        self,
        of: TopicIdPartition,
        files: Sequence[StreamFile],
        named: PartitionNames,
        plan: PartitionPlan,
        line: LatestLine | None,
    ) -> Prepared:
        """Raises _LostRows where it can't be told from the table what is visible."""
        (fold,) = folds(self._reader, files, plan.fold, _ALL)
        older = self._index.newest(of, fold.keys)
        superseded = np.sort(older[older >= 0])
        wanted = plan_files(files, named, plan.fold, superseded)
        moved = self._moved(wanted, named)
        made = _Made(going=list(named.others))
        found = 0
        for file in wanted.remade:
            offsets = self._reader.offsets(file)
            gone = self._gone_positions(file.path, named)
            if gone is None:
                before = np.isin(offsets, moved)
                found += int(np.count_nonzero(before))
            else:
                before = np.ones(len(offsets), np.bool_)
                before[gone] = False
            shown = visible(offsets, before, plan.fold, superseded, fold.shown)
            self._name(made, file, named, ~shown, gone)
        self._drop_gone(made, files, named)
        horizon = files[0].range.start if files else plan.until
        if found != int(np.count_nonzero(moved >= horizon)):
            raise _LostRows("a visible row is in no file any more")
        return Prepared(files=self._settled(made, line, self._line(of.partition, plan)), fold=fold, rows=fold.rows)

    def _moved(self, wanted: FilePlan, named: PartitionNames) -> NDArray[np.int64]:
        """The offsets that are visible in files that go, rising."""
        found = [np.empty(0, np.int64)]
        for file in wanted.sources:
            is_visible = np.ones(file.record_count, np.bool_)
            gone = self._gone_positions(file.path, named)
            assert gone is not None, "what goes is named"
            is_visible[gone] = False
            with _named_rows():
                found.append(self._reader.offsets(file)[is_visible])
        return np.sort(np.concatenate(found))

    def _gone_positions(self, path: str, named: PartitionNames) -> NDArray[np.int64] | None:
        """Positions that are taken out of a file that is named; None for another file."""
        if path not in named.data:
            return None
        deletes = named.deletes.get(path)
        if deletes is None:
            return np.empty(0, np.int64)
        with _named_rows():
            return read_positions(self._latest, deletes.path, path)

    def _name(
        self,
        made: _Made,
        file: StreamFile,
        named: PartitionNames,
        is_gone: NDArray[np.bool_],
        before: NDArray[np.int64] | None,
    ) -> None:
        """A file as it is to be named: not at all where no row is visible; as it is where nothing changes (``before``
        the positions that its delete file has)."""
        positions = np.flatnonzero(is_gone)
        data, deletes = named.data.get(file.path), named.deletes.get(file.path)
        if before is not None and np.array_equal(positions, before):
            return
        if deletes is not None:
            made.going.append(deletes)
        if len(positions) == len(is_gone):
            made.going += [data] if data is not None else []
            return
        if data is None:
            made.named[file.path] = file.manifest
        if len(positions):
            made.deletes.append(
                write_delete_file(self._latest, self._name_of(file), data_file=file.path, positions=positions)
            )
            self._written += 1

    def _name_of(self, file: StreamFile) -> FileName:
        """Of a delete file: the offsets it is about are those of its data file."""
        epoch = NO_EPOCH if file.own is None else file.own.leader_epoch
        attempt = f"{self._attempt}deletes{self._written}"
        return FileName(partition=file.partition, range=file.range, leader_epoch=epoch, attempt=attempt)

    def _drop_gone(self, made: _Made, files: Sequence[StreamFile], named: PartitionNames) -> None:
        there = {file.path for file in files}
        for path, data in named.data.items():
            if path not in there:
                made.going += [data, *([named.deletes[path]] if path in named.deletes else [])]

    def _settled(self, made: _Made, planned_on: LatestLine | None, line: LatestLine) -> PartitionNaming:
        described = described_files(self._stream, made.named)
        return PartitionNaming(
            planned_on=planned_on,
            line=line,
            coming=(*(described[path] for path in made.named), *made.deletes),
            going=tuple(file.going for file in made.going),
        )
