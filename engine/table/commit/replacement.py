"""Replacing data files by others that hold the same records (docs/commit_protocol.md, "Replacing files").

The ledger does not change, and nobody's leadership is asked for: whoever holds a verified file with the records of one
that is in the table may put it there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.errors import Invalid
from engine.offset_range import OffsetRange
from engine.parquet.settings import ParquetSettings
from engine.records.digest import RangeDigest
from engine.table.commit.change import Change, Decision, SnapshotUpdate
from engine.table.ledger import Outcome, ranges_to_json
from engine.table.manifests import ManifestReader, SnapshotFiles, TableFile
from engine.table.proof.verifier import VerifiedFile
from engine.table.properties import REPLACED_PREFIX
from engine.table.sealed_snapshot import ReplaceFiles
from engine.table.topic_table import TopicTable


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReplacement:
    """``new`` in the place of ``old``, a file as the table listed it; ``digest`` of the records that were read in it.

    Raises Invalid where the two are not of the same records.
    """

    old: TableFile
    digest: RangeDigest
    new: VerifiedFile

    def __post_init__(self) -> None:
        old, new = self.old, self.new.description
        same = (
            (old.partition, old.range, old.record_count) == (new.partition, new.range, new.record_count)
            and self.digest == new.digest
            and old.path != new.path
            and not old.parts
        )
        if not same:
            raise Invalid(
                f"a file of {new.range} with the digest {new.digest.to_text()} is to replace one of {old.range} with "
                f"{self.digest.to_text()}",
                topic=new.topic,
                partition=old.partition,
                file=old.path,
            )


def decide_replacements(
    files: SnapshotFiles, replacements: Sequence[FileReplacement]
) -> tuple[tuple[Outcome, ...], tuple[FileReplacement, ...]]:
    """(what becomes of each if a commit succeeds, those to commit), by the files of a loaded state.

    Pure. An old file must be listed as it was when it was read, and whole; a new one that is listed already was put
    there by an attempt that was not answered.
    """
    whole = {file.path: file for file in files.whole_own()}
    outcomes, accepted, taken = [], [], set()
    for replacement in replacements:
        old, new = replacement.old, replacement.new.description
        found = whole.get(old.path)
        unchanged = found is not None and found.size_bytes == old.size_bytes and old.path not in taken
        if unchanged:
            accepted.append(replacement)
            taken.add(old.path)
        is_there = unchanged or new.path in whole
        outcomes.append(Outcome.COMMITTED if is_there else Outcome.GONE)
    return tuple(outcomes), tuple(accepted)


class ReplaceDataFiles(Change):
    """``settings``: the encodings of the new files; those of columns that the table knew none for are remembered."""

    producer = ReplaceFiles

    def __init__(self, replacements: Sequence[FileReplacement], settings: ParquetSettings | None = None) -> None:
        self._replacements = tuple(replacements)
        self._settings = settings
        self._manifests = ManifestReader()
        self.partitions = frozenset(replacement.old.partition for replacement in replacements)

    def decide(self, table: TopicTable) -> Decision:
        """By the table's manifests. Raises Corrupt (a manifest is missing or damaged), Unavailable."""
        outcomes, accepted = decide_replacements(self._manifests.files(table), self._replacements)
        return Decision(
            outcomes_if_committed=outcomes,
            update=self._update(table, accepted) if accepted else None,
            is_refused=Outcome.GONE in outcomes,
        )

    def _update(self, table: TopicTable, accepted: Sequence[FileReplacement]) -> SnapshotUpdate:
        replaced: dict[int, list[OffsetRange]] = {}
        for old in (replacement.old for replacement in accepted):
            replaced.setdefault(old.partition, []).append(old.range)
        return SnapshotUpdate(
            summary={
                f"{REPLACED_PREFIX}{partition}": ranges_to_json(replaced[partition]) for partition in sorted(replaced)
            },
            properties=self._remembered(table),
            added=tuple(replacement.new.description for replacement in accepted),
            removed=tuple(replacement.old for replacement in accepted),
        )

    def _remembered(self, table: TopicTable) -> dict[str, str]:
        if self._settings is None:
            return {}
        merged = self._settings if table.settings is None else table.settings.or_else(self._settings)
        return {} if merged == table.settings else merged.to_properties()
