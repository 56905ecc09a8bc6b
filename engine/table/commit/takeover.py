"""Files of our own in the place of those that another program wrote: the same records, range by range.

What is done with our own files alone, as an erasure, can be done once they are (docs/erasure.md).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from engine.errors import Invalid
from engine.parquet.settings import ParquetSettings
from engine.table.adopted_range import AdoptedRange, adopted_to_json
from engine.table.commit.change import Change, Decision, SnapshotUpdate
from engine.table.commit.replacement import remembered
from engine.table.ledger import Outcome, ranges_to_json
from engine.table.manifests import ManifestReader, SnapshotFiles, listed_files
from engine.table.proof.verifier import VerifiedFile
from engine.table.properties import ADOPTED_PREFIX, REPLACED_PREFIX
from engine.table.sealed_snapshot import ReplaceFiles
from engine.table.topic_table import TopicTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """``new``, one for each of ``ranges``, in their place: adopted ranges of one partition, all that have a row in any
    of their files. Raises Invalid where the two are not of the same records."""

    ranges: tuple[AdoptedRange, ...]
    new: tuple[VerifiedFile, ...]

    def __post_init__(self) -> None:
        old = [(part.partition, part.range, part.digest) for part in self.ranges]
        described = [one.description for one in self.new]
        if not old or old != [(one.partition, one.range, one.digest) for one in described]:
            raise Invalid(f"{[str(one.range) for one in described]} don't hold what {len(old)} adopted ranges do")

    @property
    def partition(self) -> int:
        return self.ranges[0].partition


def sharing_files(ranges: Collection[AdoptedRange], wanted: AdoptedRange) -> tuple[AdoptedRange, ...]:
    """An adopted range, and all that must go with it, as a file of theirs has rows of several; rising."""
    group, files = [wanted], set(wanted.files)
    while True:
        more = [part for part in ranges if part not in group and not files.isdisjoint(part.files)]
        if not more:
            return tuple(sorted(group, key=lambda part: part.range))
        group += more
        files.update(file for part in more for file in part.files)


class TakeOverRanges(Change):
    """``settings``: the encodings of the new files. The ledger stays as it is: no record comes or goes."""

    producer = ReplaceFiles

    def __init__(self, takeovers: Sequence[Takeover], settings: ParquetSettings | None = None) -> None:
        self._takeovers = tuple(takeovers)
        self._settings = settings
        self._manifests = ManifestReader()
        self.partitions = frozenset(one.partition for one in takeovers)

    def decide(self, table: TopicTable) -> Decision:
        """Each stands or falls alone. Raises Corrupt (a manifest is missing or damaged), Unavailable."""
        files = self._manifests.files(table)
        whole = {file.path for file in files.whole_own()}
        accepted = [one for one in self._takeovers if _stands(table, files, one)]
        # One that was put there by an attempt that was not answered is there.
        done = [one in accepted or {new.description.path for new in one.new} <= whole for one in self._takeovers]
        return Decision(
            outcomes_if_committed=tuple(Outcome.COMMITTED if is_done else Outcome.GONE for is_done in done),
            update=self._update(table, accepted) if accepted else None,
            is_refused=not all(done),
        )

    def _update(self, table: TopicTable, accepted: Sequence[Takeover]) -> SnapshotUpdate:
        taken: dict[int, list[AdoptedRange]] = defaultdict(list)
        for one in accepted:
            taken[one.partition] += one.ranges
        summary, properties = {}, remembered(table, self._settings)
        for partition, ranges in sorted(taken.items()):
            left = [part for part in table.adopted[partition] if part not in ranges]
            summary[f"{REPLACED_PREFIX}{partition}"] = ranges_to_json(part.range for part in ranges)
            properties[f"{ADOPTED_PREFIX}{partition}"] = adopted_to_json(left, table.location)
        paths = {file.path for one in accepted for part in one.ranges for file in part.files}
        return SnapshotUpdate(
            summary=summary,
            properties=properties,
            added=tuple(new.description for one in accepted for new in one.new),
            removed=tuple(listed_files(table, paths)),
        )


def _stands(table: TopicTable, files: SnapshotFiles, asked: Takeover) -> bool:
    known = table.adopted.get(asked.partition, ())
    return (
        all(part in known and files.has_whole(part) for part in asked.ranges)
        and sharing_files(known, asked.ranges[0]) == asked.ranges
    )
