"""Replacing data files by others that hold the same records (docs/commit_protocol.md, "Replacing files").

The ledger does not change, and nobody's leadership is asked for: whoever holds a verified file with the records of one
that is in the table may put it there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from pyiceberg.table import Table, Transaction

from engine.errors import Invalid
from engine.fault_points import FaultPoint, reach
from engine.parquet.settings import ParquetSettings
from engine.records.digest import RangeDigest
from engine.table.catalog.access import begin
from engine.table.commit.plan import stage_sealed
from engine.table.commit.replace_snapshot import ReplaceFiles
from engine.table.ledger import ranges_to_json
from engine.table.manifests import ManifestReader, SnapshotFiles, TableFile
from engine.table.proof.verifier import VerifiedFile
from engine.table.properties import REPLACED_PREFIX
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


class ReplacementOutcome(Enum):
    """What became of one replacement."""

    REPLACED = "replaced"
    GONE = "gone"
    """The old file is not in the table any more: somebody else replaced it. Nothing refers to the new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacementResult:
    """``outcomes`` in the order the replacements were given; ``table`` as it is afterwards."""

    table: TopicTable
    outcomes: tuple[ReplacementOutcome, ...]


def decide_replacements(
    files: SnapshotFiles, replacements: Sequence[FileReplacement]
) -> tuple[tuple[ReplacementOutcome, ...], tuple[FileReplacement, ...]]:
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
        outcomes.append(ReplacementOutcome.REPLACED if is_there else ReplacementOutcome.GONE)
    return tuple(outcomes), tuple(accepted)


class Replacing:
    """The change that a table's writer makes: decided anew on every state it tries to commit on."""

    def __init__(self, replacements: Sequence[FileReplacement], settings: ParquetSettings | None) -> None:
        self._replacements = tuple(replacements)
        self._settings = settings
        self._manifests = ManifestReader()
        self.outcomes: tuple[ReplacementOutcome, ...] = ()

    def __call__(self, table: Table, view: TopicTable) -> tuple[Transaction, int | None] | None:
        self.outcomes, accepted = decide_replacements(self._manifests.files(view), self._replacements)
        if not accepted:
            return None
        reach(FaultPoint.COMMIT_DECIDED)
        return _stage(table, view, accepted, self._settings)


def _stage(
    table: Table, view: TopicTable, accepted: Sequence[FileReplacement], settings: ParquetSettings | None
) -> tuple[Transaction, int]:
    """One ``replace`` snapshot; the encodings of columns that the table knew none for are remembered with it."""
    partitions = sorted({replacement.old.partition for replacement in accepted})
    summary = {
        f"{REPLACED_PREFIX}{partition}": ranges_to_json(
            replacement.old.range for replacement in accepted if replacement.old.partition == partition
        )
        for partition in partitions
    }
    transaction = begin(table)
    snapshot = ReplaceFiles(table, transaction, summary)
    snapshot.take_out(replacement.old for replacement in accepted)
    for replacement in accepted:
        snapshot.append_data_file(replacement.new.description.to_iceberg(table.spec().spec_id))
    return stage_sealed(table, transaction, snapshot, _remembered(view, settings))


def _remembered(view: TopicTable, settings: ParquetSettings | None) -> dict[str, str]:
    if settings is None:
        return {}
    merged = settings if view.settings is None else view.settings.or_else(settings)
    return {} if merged == view.settings else merged.to_properties()
