"""One commit of appended ranges, built from a loaded table: which appends stand, and what they change.

Pure but for the transaction it stages: the decision is taken against the very metadata the commit's requirements
are asserted on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table, Transaction
from pyiceberg.table.update import AssertCurrentSchemaId, AssertDefaultSpecId

from engine.fault_points import FaultPoint, reach
from engine.offset_range import OffsetRange
from engine.parquet.settings import ParquetSettings
from engine.table.catalog.access import begin, translated_errors
from engine.table.catalog.metadata_errors import metadata_decoded
from engine.table.commit.range_append import Outcome, RangeAppend
from engine.table.ledger import LEDGER_PREFIX, Decision, LedgerEntry, decide, extend, ranges_to_json
from engine.table.lineage import ForeignChange
from engine.table.properties import EMPTY_PREFIX, RANGE_PREFIX, SKIPPED_PREFIX, TOPIC_PROPERTY
from engine.table.seal import (
    SCHEMA_SEAL_PROPERTY,
    guards_of,
    lacking_guards,
    lacking_schema_seal,
    schema_seal_property,
    seal_property,
)
from engine.table.sealed_snapshot import AppendFiles, SealedProducer
from engine.table.topic_table import TopicTable

ADOPTED_SUMMARY = "floeberg.adopted"
"""In a snapshot's summary: whose change it seals."""

_SNAPSHOTS_TOLD = 8

_OUTCOMES = {
    Decision.ACCEPT: Outcome.COMMITTED,
    Decision.ALREADY_THERE: Outcome.ALREADY_THERE,
    Decision.GAP: Outcome.GAP,
    Decision.OVERLAP: Outcome.OVERLAP,
    Decision.FENCED: Outcome.FENCED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPlan:
    """``outcomes`` as the appends were given, COMMITTED meaning: if the commit succeeds; ``accepted`` those appends;
    ``ledger`` the lines that change."""

    outcomes: tuple[Outcome, ...]
    accepted: tuple[RangeAppend, ...]
    ledger: dict[int, LedgerEntry]

    @property
    def refuses_some(self) -> bool:
        """Whether an append failed for a reason that a newer state of the table could lift."""
        return any(outcome not in {Outcome.COMMITTED, Outcome.ALREADY_THERE} for outcome in self.outcomes)


def plan_commit(table: TopicTable, appends: Sequence[RangeAppend]) -> CommitPlan:
    """Decide every append, those of one partition in offset order and each on top of the ones before it."""
    outcomes: dict[int, Outcome] = {}
    changed: dict[int, LedgerEntry] = {}
    accepted: list[RangeAppend] = []
    order = sorted(range(len(appends)), key=lambda index: (appends[index].partition, appends[index].range.start))
    for index in order:
        append = appends[index]
        entry = changed.get(append.partition, table.ledger.get(append.partition))
        decision = decide(entry, added=append.range, leader_epoch=append.leader_epoch, skipped=append.skipped)
        outcomes[index] = _OUTCOMES[decision]
        if decision is Decision.ACCEPT:
            changed[append.partition] = extend(
                entry, added=append.range, leader_epoch=append.leader_epoch, digest=append.digest
            )
            accepted.append(append)
    return CommitPlan(
        outcomes=tuple(outcomes[index] for index in range(len(appends))), accepted=tuple(accepted), ledger=changed
    )


def stage_commit(
    table: Table, view: TopicTable, plan: CommitPlan, settings: ParquetSettings | None
) -> tuple[Transaction, int]:
    """(the transaction with the ledger's new lines and one snapshot of the new files, the snapshot's id).

    ``settings`` are stored unless the table remembers as much already.
    """
    properties = {f"{LEDGER_PREFIX}{partition}": entry.to_json() for partition, entry in plan.ledger.items()}
    for partition in plan.ledger:
        added = [append for append in plan.accepted if append.partition == partition]
        properties |= _without_records(view, partition, added)
    if settings is not None and settings != view.settings:
        properties |= settings.to_properties()
    summary = {
        f"{RANGE_PREFIX}{partition}": ranges_to_json(a.range for a in plan.accepted if a.partition == partition)
        for partition in plan.ledger
    }
    files = [append.file.description for append in plan.accepted if append.file is not None]
    return _stage(table, summary, [description.to_iceberg(table.spec().spec_id) for description in files], properties)


def stage_ledger_line(table: Table, partition: int, entry: LedgerEntry) -> tuple[Transaction, int]:
    """A change of the ledger alone. It gets a snapshot too, an empty one.

    What guards the ledger is the requirement on the branch's snapshot; a commit of properties alone requires nothing
    and could be laid over somebody else's ledger.
    """
    return _stage(table, {}, [], {f"{LEDGER_PREFIX}{partition}": entry.to_json()})


def stage_adoption(table: Table, change: ForeignChange, properties: dict[str, str]) -> tuple[Transaction, int]:
    """Seal a state that somebody else changed and that was proven: an empty snapshot, whose summary names theirs.

    ``properties`` what was found out of the files and the columns.
    """
    told = ", ".join(map(str, change.snapshots[-_SNAPSHOTS_TOLD:]))
    schema = schema_seal_property(table.metadata)
    return _stage(table, {ADOPTED_SUMMARY: told or "columns"}, [], {**properties, **schema})


def _stage(
    table: Table, summary: dict[str, str], files: Sequence[DataFile], properties: dict[str, str]
) -> tuple[Transaction, int]:
    transaction = begin(table)
    snapshot = AppendFiles(table, transaction, summary)
    for file in files:
        snapshot.append_data_file(file)
    return stage_sealed(table, transaction, snapshot, properties)


def stage_sealed(
    table: Table, transaction: Transaction, snapshot: SealedProducer, properties: dict[str, str]
) -> tuple[Transaction, int]:
    """Stage a snapshot and with it ``properties`` and the seal of what both leave; (the transaction, its id).

    Raises Corrupt when a metadata file that the snapshot builds upon is damaged, Unavailable.
    """
    metadata = table.metadata
    current = metadata.current_snapshot()
    at = table.metadata_location if current is None else current.manifest_list
    with (
        translated_errors("the commit's manifests can't be written", table=tuple(table.name())),
        metadata_decoded(at, topic=metadata.properties.get(TOPIC_PROPERTY)),
    ):
        snapshot.commit()
        manifests = snapshot.manifest_seal(metadata)
    reach(FaultPoint.SNAPSHOT_STAGED)
    properties = {
        **lacking_guards(metadata.properties),
        **lacking_schema_seal(metadata),
        **properties,
        **guards_of(properties),
    }
    seal = seal_property(
        {**metadata.properties, **properties},
        table_uuid=str(metadata.table_uuid),
        snapshot_id=snapshot.snapshot_id,
        manifests=manifests,
    )
    transaction.set_properties({**properties, **seal})
    if SCHEMA_SEAL_PROPERTY in properties:
        # Columns are added without a snapshot: a seal of those before must not be laid over them.
        transaction._requirements += (
            AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
            AssertDefaultSpecId(default_spec_id=metadata.default_spec_id),
        )
    return transaction, snapshot.snapshot_id


def _without_records(view: TopicTable, partition: int, added: Sequence[RangeAppend]) -> dict[str, str]:
    properties = {}
    empty = [append.range for append in added if append.file is None]
    if empty:
        properties[f"{EMPTY_PREFIX}{partition}"] = ranges_to_json([*view.empty.get(partition, ()), *empty])
    skipped = [_bridged(view, append) for append in added if append.skipped is not None]
    if skipped:
        properties[f"{SKIPPED_PREFIX}{partition}"] = ranges_to_json([*view.skipped.get(partition, ()), *skipped])
    return properties


def _bridged(view: TopicTable, append: RangeAppend) -> OffsetRange:
    """The skipped offsets that are truly missing: those behind the ledger's end."""
    assert append.skipped is not None, "only an append that skips offsets bridges a gap"
    entry = view.ledger.get(append.partition)
    start = append.skipped.start if entry is None else max(append.skipped.start, entry.end)
    return OffsetRange(start=min(start, append.skipped.end), end=append.skipped.end)
