"""The horizons of partitions move, and files leave what they no longer belong to (docs/retention.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from types import MappingProxyType

from engine.errors import Corrupt, Invalid
from engine.offset_range import OffsetRange
from engine.records.digest import RangeDigest
from engine.table.commit.change import Change, Decision, SnapshotUpdate
from engine.table.foreign.footer_digests import footer_digests
from engine.table.horizon_snapshot import RemoveFiles
from engine.table.ledger import LEDGER_PREFIX, GoneRecords, LedgerEntry, ranges_to_json
from engine.table.manifests import ManifestReader, SnapshotFiles, TableFile, adopted_ranges
from engine.table.properties import EMPTY_PREFIX, LEFT_PREFIX, SKIPPED_PREFIX
from engine.table.sealed_snapshot import AppendFiles
from engine.table.topic_table import TopicTable


@dataclass(frozen=True, slots=True, kw_only=True)
class _Move:
    """One partition's line as it is to be, and the files that leave the table (those among them that the stream
    keeps), and the stream's branch."""

    line: LedgerEntry
    removed: tuple[TableFile, ...] = ()
    kept: tuple[TableFile, ...] = ()
    left: tuple[TableFile, ...] = ()

    @property
    def gone(self) -> tuple[TableFile, ...]:
        """What is listed nowhere any more, in offset order."""
        kept = {file.path for file in self.kept}
        return tuple(sorted((*self.left, *(file for file in self.removed if file.path not in kept))))


class MoveHorizons(Change):
    """``log_starts`` and ``table_starts`` by partition: no horizon moves back, nor beyond what is stored, and a file is
    cut by none. A table's horizon ends up after the last file that lies wholly below what was asked for."""

    def __init__(
        self,
        *,
        log_starts: Mapping[int, int] = MappingProxyType({}),
        table_starts: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        self._log_starts = log_starts
        self._table_starts = table_starts
        self._manifests = ManifestReader()
        self._digests: dict[str, RangeDigest] = {}
        self.producer = RemoveFiles if table_starts else AppendFiles
        self.partitions = frozenset({*log_starts, *table_starts})

    def decide(self, table: TopicTable) -> Decision:
        """By the table's manifests, where files may leave, and by the footers of those that no list names after it.

        Raises Invalid for a partition without a ledger line, Corrupt (a manifest, a footer), Unavailable.
        """
        unknown = sorted(self.partitions - table.ledger.keys())
        if unknown:
            problem = f"nothing is stored of partition {unknown[0]}, so it has no horizon"
            raise Invalid(problem, topic=table.topic, partition=unknown[0])
        touches_files = any(self._touches_files(table.ledger[partition], partition) for partition in self.partitions)
        files = self._manifests.files(table) if touches_files else SnapshotFiles()
        whole = {file.path for file in files.whole_own()}
        obstacles = (*adopted_ranges(table, files), *(file for file in files.own if file.path not in whole))
        moves = {
            partition: self._move(table.ledger[partition], partition, files, obstacles)
            for partition in sorted(self.partitions)
        }
        moves = {
            partition: move
            for partition, move in moves.items()
            if move.line != table.ledger[partition] or move.removed or move.left
        }
        self._read_footers(table, [file for move in moves.values() for file in move.gone])
        return Decision(update=self._update(table, moves, files)) if moves else Decision()

    def _touches_files(self, entry: LedgerEntry, partition: int) -> bool:
        """Whether files may leave the table, or the stream's branch, which has files between the two horizons only."""
        return partition in self._table_starts or entry.held.start < entry.table_start

    def _move(self, entry: LedgerEntry, partition: int, files: SnapshotFiles, obstacles: Sequence[TableFile]) -> _Move:
        line = entry.with_log_start(self._log_starts.get(partition, 0))
        wanted = self._table_starts.get(partition, 0)
        obstacle = min((file.range.start for file in obstacles if file.partition == partition), default=entry.end)
        removed = tuple(
            file
            for file in files.own
            if file.partition == partition
            # It holds no record at or above the horizon that was asked for.
            and file.range.end <= wanted
            # What another program wrote, or deleted from, does not leave; so nothing stays below what does.
            and file.range.end <= obstacle
        )
        left = tuple(
            file
            for file in files.stream
            if file.partition == partition
            # No consumer reads any of its offsets, and no SQL engine: only the stream's branch lists it.
            and file.range.end <= line.log_start
        )
        table_start = max([line.table_start, *(file.range.end for file in removed)])
        kept = tuple(file for file in removed if file.range.end > line.log_start)
        return _Move(line=replace(line, table_start=table_start), removed=removed, kept=kept, left=left)

    def _read_footers(self, table: TopicTable, gone: Sequence[TableFile]) -> None:
        unread = [file for file in gone if file.path not in self._digests]
        for file, digest in zip(unread, footer_digests(table, unread), strict=True):
            if isinstance(digest, Corrupt):
                raise Corrupt(
                    f"a file can't leave the table, as its footer does not say what is in it: {digest.problem}",
                    topic=table.topic,
                    partition=file.partition,
                    file=file.path,
                    next_step="run floeberg fsck on the topic",
                )
            self._digests[file.path] = digest

    def _update(self, table: TopicTable, moves: Mapping[int, _Move], files: SnapshotFiles) -> SnapshotUpdate:
        summary, properties = {}, {}
        for partition, move in moves.items():
            line = self._with_gone(move, partition, files) if move.gone else move.line
            properties[f"{LEDGER_PREFIX}{partition}"] = line.to_json()
            if move.removed:
                summary[f"{LEFT_PREFIX}{partition}"] = ranges_to_json(file.range for file in move.removed)
            if move.gone:
                properties |= _without_gone(table, partition, line.held)
        return SnapshotUpdate(
            summary=summary,
            properties=properties,
            removed=tuple(file for move in moves.values() for file in move.removed),
            kept=tuple(file for move in moves.values() for file in move.kept),
            left=tuple(file for move in moves.values() for file in move.left),
        )

    def _with_gone(self, move: _Move, partition: int, files: SnapshotFiles) -> LedgerEntry:
        """The line that keeps the digest of what no file holds any more, in offset order."""
        line, gone = move.line, move.gone
        paths = {file.path for file in gone}
        listed = [file for file in (*files.own, *files.stream) if file.partition == partition]
        remaining = [file.range.start for file in listed if file.path not in paths]
        end = min([line.log_start, line.table_start, *remaining])
        assert line.held.start <= gone[0].range.start, "what is gone is in the digest once"
        assert gone[-1].range.end <= end, "what is gone lies below all that is left"
        digest = reduce(RangeDigest.then, (self._digests[file.path] for file in gone), line.gone_digest)
        return replace(line, gone=GoneRecords(end=end, digest=digest))


def _without_gone(table: TopicTable, partition: int, held: OffsetRange) -> dict[str, str]:
    """The properties of ranges without a file, without what lies below the first offset that files hold."""
    changed = {}
    for prefix, ranges in ((EMPTY_PREFIX, table.empty), (SKIPPED_PREFIX, table.skipped)):
        before = ranges.get(partition, ())
        after = [part for one in before if (part := one.intersection(held)) is not None]
        if after != list(before):
            changed[f"{prefix}{partition}"] = ranges_to_json(after)
    return changed
