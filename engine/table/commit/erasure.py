"""Taking records out of a table for good: files give their place to others without them (docs/erasure.md).

The only change that makes a ledger line's digest another one of the same range: it becomes that of what is left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import chain

from engine.errors import Corrupt
from engine.offset_range import OffsetRange
from engine.parquet.settings import ParquetSettings
from engine.records.digest import RangeDigest
from engine.table.commit.change import Change, Decision, SnapshotUpdate
from engine.table.commit.replacement import remembered
from engine.table.erased import ErasedRecords, Erasure, ranges_of
from engine.table.foreign.footer_digests import footer_digests
from engine.table.ledger import LEDGER_PREFIX, Outcome, ranges_to_json
from engine.table.manifests import ManifestReader, SnapshotFiles, TableFile, by_partition
from engine.table.proof.verifier import VerifiedErasure
from engine.table.properties import EMPTY_PREFIX, ERASED_PREFIX
from engine.table.sealed_snapshot import OverwriteFiles
from engine.table.topic_table import TopicTable


class EraseRecords(Change):
    """``erasure_id`` and ``at_ms`` (since the epoch) of the erasure that the files are a part of; ``settings`` the
    encodings of the new ones."""

    producer = OverwriteFiles

    def __init__(
        self,
        erasures: Sequence[VerifiedErasure],
        *,
        erasure_id: str,
        at_ms: int,
        settings: ParquetSettings | None = None,
    ) -> None:
        self._erasures = tuple(erasures)
        self._erasure_id = erasure_id
        self._at_ms = at_ms
        self._settings = settings
        self._manifests = ManifestReader()
        self._digests: dict[str, RangeDigest] = {}
        self.partitions = frozenset(one.old.partition for one in erasures)

    def decide(self, table: TopicTable) -> Decision:
        """By the table's manifests, and by the footers of all files of the partitions: each is read once.

        Raises Corrupt (a manifest or a file is missing or damaged, or the files don't give the ledger's digest),
        Unavailable.
        """
        files = self._manifests.files(table)
        outcomes, accepted = _decided(table, files, self._erasures)
        return Decision(
            outcomes_if_committed=outcomes,
            update=self._update(table, accepted, files) if accepted else None,
            is_refused=Outcome.GONE in outcomes,
        )

    def _update(self, table: TopicTable, accepted: Sequence[VerifiedErasure], files: SnapshotFiles) -> SnapshotUpdate:
        parts: dict[int, list[VerifiedErasure]] = defaultdict(list)
        for one in accepted:
            parts[one.old.partition].append(one)
        own = by_partition(sorted((*files.own, *files.stream)))
        listed = {file.path: file for file in files.own}
        streams = {file.path: file for file in files.stream}
        summary: dict[str, str] = {}
        properties = remembered(table, self._settings)
        for partition, erased in sorted(parts.items()):
            erasure = self._erasure(table, own[partition], erased)
            known = table.erased.get(partition, ErasedRecords())
            offsets = list(chain.from_iterable(ranges_of(one.offsets) for one in erased))
            summary[f"{ERASED_PREFIX}{partition}"] = ErasedRecords(erasures=(erasure,)).to_json()
            properties[f"{LEDGER_PREFIX}{partition}"] = replace(table.ledger[partition], digest=erasure.after).to_json()
            properties[f"{ERASED_PREFIX}{partition}"] = known.with_erasure(erasure, offsets).to_json()
            empty = [one.old.range for one in erased if one.new is None]
            if empty:
                empty += table.empty.get(partition, ())
                properties[f"{EMPTY_PREFIX}{partition}"] = ranges_to_json(empty)
        return SnapshotUpdate(
            summary=summary,
            properties=properties,
            added=tuple(one.new.description for one in accepted if one.new is not None and one.old.path in listed),
            removed=tuple(listed[one.old.path] for one in accepted if one.old.path in listed),
            came=tuple(one.new.description for one in accepted if one.new is not None and one.old.path in streams),
            left=tuple(streams[one.old.path] for one in accepted if one.old.path in streams),
        )

    def _erasure(self, table: TopicTable, own: Sequence[TableFile], erased: Sequence[VerifiedErasure]) -> Erasure:
        partition = own[0].partition
        entry = table.ledger[partition]
        before = self._digest(table, own, {})
        if before != entry.digest:
            raise Corrupt(
                f"the files have the digest {before.to_text()}, the ledger {entry.digest.to_text()}: nothing is erased "
                "where something is missing already",
                topic=table.topic,
                partition=partition,
                next_step=f"floeberg fsck {table.topic}",
            )
        offsets = [int(one.offsets[at]) for one in erased for at in (0, -1)]
        return Erasure(
            erasure_id=self._erasure_id,
            at_ms=self._at_ms,
            extent=OffsetRange(start=min(offsets), end=max(offsets) + 1),
            record_count=sum(len(one.offsets) for one in erased),
            stored=entry.range,
            before=before,
            after=self._digest(table, own, {one.old.path: one.after for one in erased}),
        )

    def _digest(self, table: TopicTable, own: Sequence[TableFile], now: Mapping[str, RangeDigest]) -> RangeDigest:
        """Of what is gone and of all that the partition's files hold, those in ``now`` with these digests."""
        self._read_footers(table, own)
        parts = [(file.range, now.get(file.path, self._digests[file.path])) for file in own]
        parts += [(part.range, part.digest) for part in table.adopted.get(own[0].partition, ())]
        gone = table.ledger[own[0].partition].gone_digest
        return reduce(RangeDigest.then, (digest for _, digest in sorted(parts, key=lambda one: one[0])), gone)

    def _read_footers(self, table: TopicTable, own: Sequence[TableFile]) -> None:
        unread = [file for file in own if file.path not in self._digests]
        for file, digest in zip(unread, footer_digests(table, unread), strict=True):
            if isinstance(digest, Corrupt):
                raise digest.located(table.topic, file.partition)
            self._digests[file.path] = digest


def _decided(
    table: TopicTable, files: SnapshotFiles, erasures: Sequence[VerifiedErasure]
) -> tuple[tuple[Outcome, ...], tuple[VerifiedErasure, ...]]:
    """(what becomes of each if a commit succeeds, those to commit).

    Each stands or falls alone: its old file must be listed as it was read, no row deleted from it, and be all that the
    partition has in its range.
    """
    whole = {file.path: file.size_bytes for file in (*files.whole_own(), *files.stream)}
    outcomes = []
    accepted = []
    for one in erasures:
        if whole.get(one.old.path) == one.old.size_bytes and not any(_beside(table, files, one.old)):
            outcomes.append(Outcome.COMMITTED)
            accepted.append(one)
        else:
            # One that was put there by an attempt that was not answered is there.
            is_there = one.new is not None and one.new.description.path in whole
            outcomes.append(Outcome.COMMITTED if is_there else Outcome.GONE)
    return tuple(outcomes), tuple(accepted)


def _beside(table: TopicTable, files: SnapshotFiles, old: TableFile) -> Iterator[OffsetRange]:
    """What else of the partition reaches into a file's range."""
    for file in (*files.own, *files.stream):
        if file.partition == old.partition and file.path != old.path and file.range.overlaps(old.range):
            yield file.range
    for part in table.adopted.get(old.partition, ()):
        if part.range.overlaps(old.range):
            yield part.range
