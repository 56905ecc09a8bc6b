"""Looks at a table that somebody else changed, and says what to record of it, or why nothing more may be added.

The acting part of adoption: reads manifests, footers and the rows of others' files; adoption.py judges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import structlog
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import IdentityTransform

from engine.errors import Corrupt, FloebergError, Unavailable
from engine.records.digest import RangeDigest
from engine.table.adopted_range import AdoptedRange, ForeignFile, adopted_to_json
from engine.table.catalog.metadata_errors import UNDECODABLE
from engine.table.foreign.adoption import Difference, PartitionFound, files_by_partition, judge_partition
from engine.table.foreign.evidence import ForeignEvidence, ForeignTask, gather_evidence
from engine.table.foreign.footer_digests import footer_digests
from engine.table.manifests import NO_PARTITION, ManifestReader, SnapshotFiles, TableFile
from engine.table.own_columns import columns_property
from engine.table.properties import ADOPTED_PREFIX
from engine.table.seal import is_guarded, is_sealed
from engine.table.stream_branch import STREAM_BRANCH
from engine.table.topic_table import SOMEBODY_ELSE, ForeignChange, TopicTable, foreign_change

log = structlog.get_logger(__name__)

GATHER_THREADS = 2
"""Files of others read at once in this process; each takes a batch of rows and its evidence."""

_EARLIER_STATES = 10
"""Metadata files looked at for the values that somebody edited."""

GatherAll = Callable[[Sequence[ForeignTask]], Sequence[ForeignEvidence | FloebergError]]


def gather_in_process(tasks: Sequence[ForeignTask]) -> list[ForeignEvidence | FloebergError]:
    """Evidence of each file, in order; where there is none, the error that says why."""

    def gather(task: ForeignTask) -> ForeignEvidence | FloebergError:
        try:
            return gather_evidence(task)
        except FloebergError as error:
            return error

    with ThreadPoolExecutor(GATHER_THREADS, thread_name_prefix="adoption") as pool:
        return list(pool.map(gather, tasks))


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What the files of a table turned out to be: ``adopted`` by partition, of those that changed."""

    adopted: dict[int, tuple[AdoptedRange, ...]] = field(default_factory=dict)
    differences: tuple[Difference, ...] = ()


def prove_unbroken(table: Table, view: TopicTable, change: ForeignChange, gather: GatherAll) -> dict[str, str]:
    """The properties to seal a table with that still holds every record, whatever ``change`` did to it.

    Raises Corrupt, naming the change, the first thing that is wrong and the next step; Unavailable.
    """
    if change.uuid_changed:
        raise broken(view, change, "another table was put in its place")
    if change.properties_changed or change.rules_edited:
        raise broken(view, change, f"Floeberg's properties were edited: {_edited(table)}")
    problem = _column_problem(view, table.schema(), table.spec())
    if problem is not None:
        raise broken(view, change, problem)
    if change.stream_changed is not None:
        raise broken(view, change, "consumers would miss what that branch listed")
    findings = examine_files(view, change, gather) if change.files_changed else Findings()
    if findings.differences:
        first, *others = findings.differences
        more = f"; {len(others)} more partitions differ" if others else ""
        raise broken(view, change, f"{first}{more}", difference=first)
    _warn_of_dropped(view, table.schema())
    adopted = {
        f"{ADOPTED_PREFIX}{partition}": adopted_to_json(ranges, view.location)
        for partition, ranges in findings.adopted.items()
    }
    return {**adopted, **columns_property(view.iceberg_schema, table.schema())}


def broken(view: TopicTable, change: ForeignChange, problem: str, *, difference: Difference | None = None) -> Corrupt:
    """The error that stops a table's partitions."""
    return Corrupt(
        f"{SOMEBODY_ELSE}: {change}: {problem}",
        topic=view.topic,
        partition=None if difference is None else difference.partition,
        offset=None if difference is None or difference.range is None else difference.range.start,
        file=None if difference is None else difference.file,
        next_step=_next_step(view, change),
    )


def _next_step(view: TopicTable, change: ForeignChange) -> str:
    name = ".".join(view.identifier)
    check = f"then floeberg fsck {view.topic}; tiering goes on by itself once the table is whole"
    if change.stream_changed is not None and not change.files_changed:
        return f"{_stream_step(name, change)}, {check}"
    if change.files_changed and change.sealed_snapshot is not None:
        procedure = "set_current_snapshot" if change.is_behind else "rollback_to_snapshot"
        return f"CALL system.{procedure}('{name}', {change.sealed_snapshot.snapshot_id}), {check}"
    if change.files_changed and change.seal is not None:
        return f"restore the snapshot {change.seal.snapshot_id} from a copy of the table, {check}"
    return f"undo it with the program that did it, {check}"


def _stream_step(name: str, change: ForeignChange) -> str:
    if change.seal is None or change.seal.stream is None:
        return f"ALTER TABLE {name} DROP BRANCH `{STREAM_BRANCH}`"
    left_at = change.seal.stream.snapshot_id
    return (
        f"ALTER TABLE {name} CREATE OR REPLACE BRANCH `{STREAM_BRANCH}` AS OF VERSION {left_at}, or, where that "
        "snapshot is gone, restore it from a copy of the table"
    )


def examine_files(view: TopicTable, change: ForeignChange, gather: GatherAll) -> Findings:
    """Judge every partition whose files are not those of the sealed snapshot. Raises Corrupt, Unavailable."""
    reader = ManifestReader()
    sealed = _sealed_files(view, change, reader)
    files = reader.files(view)
    deletions = list(_deletions(files))
    foreign = files_by_partition(files.foreign)
    own: dict[int, list[TableFile]] = {}
    for file in (*files.own, *files.stream):
        own.setdefault(file.partition, []).append(file)
    before = sealed or SnapshotFiles()
    changed = [
        partition
        for partition in sorted({*view.ledger, *own, *foreign})
        if sealed is None or _listed(sealed, partition) != _listed(files, partition)
    ]
    work = _Examination(view=view, before=before, gather=gather)
    adopted: dict[int, tuple[AdoptedRange, ...]] = {}
    differences = list(deletions)
    for partition in changed:
        judged = work.judge(partition, own.get(partition, []), foreign.get(partition, []))
        if isinstance(judged, Difference):
            differences.append(judged)
        else:
            adopted[partition] = judged
    return Findings(adopted=adopted, differences=tuple(differences))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Examination:
    view: TopicTable
    before: SnapshotFiles
    gather: GatherAll

    def judge(
        self, partition: int, own: Sequence[TableFile], foreign: Sequence[ForeignFile]
    ) -> tuple[AdoptedRange, ...] | Difference:
        view = self.view
        if partition == NO_PARTITION:
            return Difference(partition=partition, problem="rows of no partition were added", file=foreign[0].path)
        held = {file.path for file in own}
        gone = [file for file in self.before.own if file.partition == partition and file.path not in held]
        # An adopted range whose files are gone is known by its digest, as a file of ours is by its footer.
        lost = [part for part in view.adopted.get(partition, ()) if not set(part.files) <= set(foreign)]
        cuts = tuple(sorted({*(file.range.start for file in gone), *(part.range.start for part in lost)}))
        tasks = [ForeignTask(table=view.facts, file=file, cuts=cuts) for file in foreign]
        evidence: list[ForeignEvidence] = []
        for task, answer in zip(tasks, self.gather(tasks), strict=True):
            if isinstance(answer, Unavailable):
                raise answer
            if isinstance(answer, FloebergError):
                return Difference(partition=partition, problem=answer.problem, file=task.file.path)
            evidence.append(answer)
        digests = footer_digests(view, own)
        damaged = next((found for found in digests if isinstance(found, Corrupt)), None)
        if damaged is not None:
            return Difference(partition=partition, problem=damaged.problem, file=damaged.file)
        found = PartitionFound(
            partition=partition,
            ledger=view.ledger.get(partition),
            own=tuple((f, d) for f, d in zip(own, digests, strict=True) if isinstance(d, RangeDigest)),
            evidence=tuple(evidence),
            known_empty=(*view.empty.get(partition, ()), *view.skipped.get(partition, ())),
        )
        judged = judge_partition(found)
        if isinstance(judged, Difference):
            # Only now, and as far as they are still there: what was stored before tells where something is missing.
            known = [(file.range, digest) for file, digest in zip(gone, footer_digests(view, gone), strict=True)]
            earlier = [(offsets, digest) for offsets, digest in known if isinstance(digest, RangeDigest)]
            earlier += [(part.range, part.digest) for part in lost]
            earlier.sort(key=lambda stored: stored[0])
            judged = judge_partition(replace(found, before=tuple(earlier)))
        return judged


def _sealed_files(view: TopicTable, change: ForeignChange, reader: ManifestReader) -> SnapshotFiles | None:
    """The files that Floeberg left; None where the metadata that listed them is gone."""
    if change.sealed_snapshot is None:
        return SnapshotFiles() if change.seal is not None and change.seal.snapshot_id is None else None
    try:
        sealed = None if change.seal is None else change.seal.manifests
        return reader.files(replace(view, manifest_list=change.sealed_snapshot.manifest_list, manifest_seal=sealed))
    except Corrupt:
        return None


def _listed(files: SnapshotFiles, partition: int) -> list[tuple[str, int, int]]:
    """What a snapshot says of one partition's files, each as often as it names it."""
    own = [(file.path, file.size_bytes, file.record_count) for file in files.own if file.partition == partition]
    return sorted([*own, *((f.path, f.size_bytes, f.record_count) for f in files.foreign if f.partition == partition)])


def _deletions(files: SnapshotFiles) -> list[Difference]:
    found: dict[int, Difference] = {}
    held = [(file.path, file.partition, file.sequence_number) for file in files.own]
    held += [(file.path, file.partition, sequence) for file, sequence in files.foreign.items()]
    for path, partition, sequence in held if files.deletes else ():
        delete = files.is_deleted_from(path, partition, sequence)
        if delete is not None and partition not in found:
            problem = f"rows were deleted: the delete file {delete.path} takes rows out of {path}"
            found[partition] = Difference(partition=partition, problem=problem, file=delete.path)
    return [found[partition] for partition in sorted(found)]


def _column_problem(view: TopicTable, schema: Schema, spec: PartitionSpec) -> str | None:
    """What was done to Kafka's own columns or to the partitioning that Floeberg can't go on with."""
    layout = view.layout
    for own in view.iceberg_schema.fields:
        if not layout.is_metadata(own.name):
            continue
        there = next((field for field in schema.fields if field.field_id == own.field_id), None)
        if there is None:
            return f"the column {own.name} was dropped"
        if there.name != own.name:
            return f"the column {own.name} was renamed to {there.name}"
        # A typed key's fields are found by id, as a value's are.
        is_typed_key = own.name == layout.key_column and layout.has_typed_key and there.field_type.is_struct
        if there.field_type != own.field_type and not is_typed_key:
            return f"the column {own.name} was made {there.field_type}, it was {own.field_type}"
    by = [(field.source_id, field.transform) for field in spec.fields]
    if by != [(view.iceberg_schema.find_field(layout.partition).field_id, IdentityTransform())]:
        return f"it is partitioned by {spec}, no longer by {layout.partition}"
    return None


def _warn_of_dropped(view: TopicTable, schema: Schema) -> None:
    kept = {field.field_id for field in schema.fields}
    for own in view.iceberg_schema.fields:
        if own.field_id not in kept:
            log.warning(
                "value_column_dropped",
                topic=view.topic,
                column=own.name,
                note="files keep it and offset reads use it; a program that rewrites them would lose it",
            )


def _edited(table: Table) -> str:
    """Which properties differ from those of the newest earlier state that was whole, and where that is."""
    now = _told(table.metadata)
    for entry in reversed(table.metadata.metadata_log[-_EARLIER_STATES:]):
        try:
            earlier = FromInputFile.table_metadata(table.io.new_input(entry.metadata_file))
        except (OSError, *UNDECODABLE):
            continue
        if foreign_change(earlier) is None:
            then = _told(earlier)
            names = sorted(name for name in {*now, *then} if now.get(name) != then.get(name))
            return f"{', '.join(names)}; the values before are in {entry.metadata_file}"
    return "no earlier state is left to compare them with"


def _told(metadata: TableMetadata) -> dict[str, str]:
    """What an edit may have changed, by name."""
    properties = metadata.properties.items()
    told = {name: text for name, text in properties if is_sealed(name) or is_guarded(name)}
    return {**told, "the current schema": str(metadata.schema()), "the partition spec": str(metadata.spec())}
