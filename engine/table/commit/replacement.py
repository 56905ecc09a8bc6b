"""Replacing data files by others that hold the same records (docs/commit_protocol.md, "Replacing files").

The ledger does not change, and nobody's leadership is asked for: whoever holds verified files with the records of some
that are in the table may put them there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from types import MappingProxyType

from engine.errors import Invalid
from engine.offset_range import OffsetRange
from engine.parquet.settings import ParquetSettings
from engine.records.digest import EMPTY_DIGEST, RangeDigest
from engine.table.adopted_range import AdoptedRange
from engine.table.commit.change import Change, Decision, SnapshotUpdate
from engine.table.data_file import FileDescription
from engine.table.ledger import Outcome, ranges_to_json
from engine.table.manifests import ManifestReader, SnapshotFiles, TableFile, by_partition
from engine.table.proof.verifier import VerifiedFile
from engine.table.properties import REPLACED_PREFIX
from engine.table.sealed_snapshot import ReplaceFiles
from engine.table.topic_table import TopicTable


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReplacement:
    """``new`` in the place of ``old``, files of one partition as the table listed them, rising, with none between them.

    ``new`` reach, one after the other, from the first old one's start to the last one's end. ``digest`` of the records
    that were read in the old ones, in order. Raises Invalid where the two are not of the same records.
    """

    old: tuple[TableFile, ...]
    digest: RangeDigest
    new: tuple[VerifiedFile, ...]

    def __post_init__(self) -> None:
        problem = next(_problems(self), None)
        if problem is not None:
            raise Invalid(
                f"files can't replace others: {problem}",
                topic=next((new.topic for new in self.descriptions), None),
                partition=next((old.partition for old in self.old), None),
                file=next((old.path for old in self.old), None),
            )

    @property
    def descriptions(self) -> tuple[FileDescription, ...]:
        return tuple(new.description for new in self.new)

    @property
    def partition(self) -> int:
        return self.old[0].partition

    @property
    def range(self) -> OffsetRange:
        return OffsetRange(start=self.old[0].range.start, end=self.old[-1].range.end)


def _problems(asked: FileReplacement) -> Iterator[str]:
    """Why files can't give their place to others, if so."""
    old, new = asked.old, asked.descriptions
    if not old or not new:
        yield f"{len(old)} files by {len(new)}"
        return
    if {*(file.partition for file in old), *(file.partition for file in new)} != {asked.partition}:
        yield "they are of several partitions"
    if any(file.parts for file in old):
        yield "another program wrote some of them"
    if any(one.range.end > two.range.start for one, two in pairwise(old)):
        yield "the old ones are not in order"
    ends = [asked.range.start, *(file.range.end for file in new)]
    if [file.range.start for file in new] != ends[:-1] or ends[-1] != asked.range.end:
        yield f"{[str(file.range) for file in new]} are not {asked.range}"
    before, after = (sum(file.record_count for file in files) for files in (old, new))
    if before != after:
        yield f"{after} records are not {before}"
    digest = reduce(RangeDigest.then, (file.digest for file in new), EMPTY_DIGEST)
    if digest != asked.digest:
        yield f"the new ones have the digest {digest.to_text()}, the old ones {asked.digest.to_text()}"
    paths = [*(file.path for file in old), *(file.path for file in new)]
    if len(set(paths)) < len(paths):
        yield "a file is named twice"


def decide_replacements(
    files: SnapshotFiles,
    replacements: Sequence[FileReplacement],
    adopted: Mapping[int, Sequence[AdoptedRange]] = MappingProxyType({}),
) -> tuple[tuple[Outcome, ...], tuple[FileReplacement, ...]]:
    """(what becomes of each if a commit succeeds, those to commit), by the files and adopted ranges of a loaded state.

    Pure. Each stands or falls alone, and as a whole: its old files must be listed as they were when they were read, no
    row deleted from them, and be all that the partition has in their range. New ones that are listed already were put
    there by an attempt that was not answered.
    """
    whole = {file.path: file for file in files.whole_own()}
    listed = by_partition(files.own)
    outcomes, accepted, taken = [], [], set[str]()
    for asked in replacements:
        there = [file for file in listed.get(asked.partition, ()) if file.range.overlaps(asked.range)]
        is_adopted = any(part.range.overlaps(asked.range) for part in adopted.get(asked.partition, ()))
        unchanged = (
            not is_adopted
            and [(file.path, file.size_bytes) for file in there] == [(old.path, old.size_bytes) for old in asked.old]
            and all(old.path in whole and old.path not in taken for old in asked.old)
        )
        if unchanged:
            accepted.append(asked)
            taken.update(old.path for old in asked.old)
        is_there = unchanged or all(new.path in whole for new in asked.descriptions)
        outcomes.append(Outcome.COMMITTED if is_there else Outcome.GONE)
    return tuple(outcomes), tuple(accepted)


class ReplaceDataFiles(Change):
    """``settings``: the encodings of the new files; those of columns that the table knew none for are remembered."""

    producer = ReplaceFiles

    def __init__(self, replacements: Sequence[FileReplacement], settings: ParquetSettings | None = None) -> None:
        self._replacements = tuple(replacements)
        self._settings = settings
        self._manifests = ManifestReader()
        self.partitions = frozenset(asked.partition for asked in replacements)

    def decide(self, table: TopicTable) -> Decision:
        """By the table's manifests. Raises Corrupt (a manifest is missing or damaged), Unavailable."""
        files = self._manifests.files(table)
        outcomes, accepted = decide_replacements(files, self._replacements, table.adopted)
        return Decision(
            outcomes_if_committed=outcomes,
            update=self._update(table, accepted, files) if accepted else None,
            is_refused=Outcome.GONE in outcomes,
        )

    def _update(self, table: TopicTable, accepted: Sequence[FileReplacement], files: SnapshotFiles) -> SnapshotUpdate:
        # As they are listed now: the manifests may be others since they were read.
        listed = {file.path: file for file in files.own}
        replaced: dict[int, list[OffsetRange]] = {}
        for asked in accepted:
            replaced.setdefault(asked.partition, []).append(asked.range)
        return SnapshotUpdate(
            summary={
                f"{REPLACED_PREFIX}{partition}": ranges_to_json(replaced[partition]) for partition in sorted(replaced)
            },
            properties=remembered(table, self._settings),
            added=tuple(new for asked in accepted for new in asked.descriptions),
            removed=tuple(listed[old.path] for asked in accepted for old in asked.old),
        )


def remembered(table: TopicTable, settings: ParquetSettings | None) -> dict[str, str]:
    """The properties that keep the encodings of columns that the table knew none for."""
    if settings is None:
        return {}
    merged = settings if table.settings is None else table.settings.or_else(settings)
    return {} if merged == table.settings else merged.to_properties()
