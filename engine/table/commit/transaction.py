"""One commit to a table: what changed is staged in a pyiceberg transaction, sealed, and sent once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchTableError,
    TooManyRequestsError,
    UnauthorizedError,
    ValidationException,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePartitionStatisticsUpdate,
    RemoveSnapshotsUpdate,
    RemoveStatisticsUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
    update_table_metadata,
)
from pyiceberg.typedef import Record
from sqlalchemy.exc import SQLAlchemyError

from engine.errors import CommitUnknown, Invalid, Unavailable
from engine.fault_points import FaultPoint, reach
from engine.table.catalog.access import NO_ANSWER, database_error, line_of, translated_errors
from engine.table.catalog.metadata_errors import metadata_decoded
from engine.table.catalog.sql import is_refused, shared
from engine.table.commit.change import SnapshotUpdate
from engine.table.commit.clock_refusal import clock_refusal
from engine.table.commit.schema_change import stage_ids
from engine.table.history import expired
from engine.table.history_limits import HistoryLimits
from engine.table.horizon_snapshot import KeepForStream
from engine.table.manifests import TableFile
from engine.table.properties import ERASED_PREFIX, TOPIC_PROPERTY
from engine.table.seal import (
    SCHEMA_SEAL_PROPERTY,
    guards_of,
    lacking_guards,
    lacking_schema_seal,
    schema_seal_property,
    seal_property,
    sealed_stream,
    total_after,
)
from engine.table.sealed_snapshot import ProvenManifests, SealedProducer
from engine.table.stream_branch import NEVER_EXPIRES_MS, STREAM_BRANCH, StreamSeal

_REFUSALS = (UnauthorizedError, AuthorizationExpiredError, ForbiddenError, TooManyRequestsError)
"""Answers that a catalog gives before it does anything."""


class CommitConflict(Unavailable):
    """Somebody else committed first: nothing was changed. Load the table again and decide again."""


class TableTransaction(Transaction):
    """pyiceberg's, without copying the whole metadata each time a step looks at it.

    The library's property applies the staged updates to a deep copy on every access, 14 times a commit: half a second
    on a table with 1000 snapshots. Nothing that reads it changes it, so copies share its parts, whatever the catalog.
    """

    _applied: tuple[tuple[TableUpdate, ...], TableMetadata] | None = None

    def __init__(self, table: Table, now_ms: int) -> None:
        super().__init__(table)
        table.metadata = shared(table.metadata)
        self._now_ms = now_ms

    @property
    def table_metadata(self) -> TableMetadata:
        if not self._updates:
            return self._table.metadata
        if self._applied is None or self._applied[0] is not self._updates:
            self._applied = (self._updates, update_table_metadata(self._table.metadata, self._updates))
        return self._applied[1]

    def _stage(self, updates: tuple[TableUpdate, ...], requirements: tuple[TableRequirement, ...] = ()) -> Transaction:
        """The library drops the second of two requirements of a kind, whatever branch it is about."""
        staged = super()._stage(tuple(map(self._as_we_mean_it, updates)), requirements)
        self._requirements += tuple(one for one in requirements if one not in self._requirements)
        return staged

    def _as_we_mean_it(self, update: TableUpdate) -> TableUpdate:
        """A snapshot is later than the table's last change even where the clock has gone back: Iceberg's Java readers
        refuse the whole table when its snapshots are out of order by more than a minute (TableMetadata, "Expected
        sorted snapshot log entries"). And a branch that moves keeps the rules of its own, which the library drops.
        """
        metadata = self._table.metadata
        if isinstance(update, AddSnapshotUpdate):
            taken_ms = max(self._now_ms, metadata.last_updated_ms + 1)
            return AddSnapshotUpdate(snapshot=update.snapshot.model_copy(update={"timestamp_ms": taken_ms}))
        if isinstance(update, SetSnapshotRefUpdate) and update.ref_name == STREAM_BRANCH:
            # Only Floeberg reads the branch, and only where it is: nobody goes back in it.
            return update.model_copy(update={"max_ref_age_ms": NEVER_EXPIRES_MS, "min_snapshots_to_keep": 1})
        if isinstance(update, SetSnapshotRefUpdate) and (ref := metadata.refs.get(update.ref_name)) is not None:
            return update.model_copy(
                update={
                    "min_snapshots_to_keep": ref.min_snapshots_to_keep,
                    "max_snapshot_age_ms": ref.max_snapshot_age_ms,
                    "max_ref_age_ms": ref.max_ref_age_ms,
                }
            )
        return update

    def stage_snapshot(
        self,
        producer: type[SealedProducer],
        updates: Sequence[SnapshotUpdate],
        proven: ProvenManifests | None = None,
    ) -> int:
        """Stage one snapshot with all ``updates``, their properties, and the seal of what both leave; its id.

        Each change of the ledger gets a snapshot, an empty one if it must: what guards the ledger is the requirement
        on the branch's snapshot; a commit of properties alone requires nothing and could be laid over somebody else's
        ledger. ``proven``: manifests that were compared with the table's seal. Raises Corrupt when a metadata file that
        the snapshot builds upon is damaged, Unavailable.
        """
        table, metadata = self._table, self._table.metadata
        spec_id, current = metadata.default_spec_id, metadata.current_snapshot()
        summary = {name: text for update in updates for name, text in update.summary.items()}
        schema = next((update.schema for update in updates if update.schema is not None), None)
        if schema is not None:
            stage_ids(self, schema)
        snapshot = producer(table, self, summary, {} if proven is None else proven)
        for update in updates:
            for file in update.removed:
                snapshot.remove(_entry_of(file, spec_id), file.manifest)
            for description in update.added:
                snapshot.append_data_file(description.to_iceberg(spec_id))
            for entry, manifest in update.entries_gone:
                snapshot.remove(entry, manifest)
            for entry in update.entries:
                snapshot.append_data_file(entry)
        with (
            translated_errors("the commit's manifests can't be written", table=tuple(table.name())),
            metadata_decoded(
                table.metadata_location if current is None else current.manifest_list,
                topic=metadata.properties.get(TOPIC_PROPERTY),
            ),
        ):
            snapshot.commit()
            manifests = snapshot.manifest_seal()
            stream = self._stage_stream(snapshot, updates, {} if proven is None else proven)
        reach(FaultPoint.SNAPSHOT_STAGED)
        changed = {name: text for update in updates for name, text in update.properties.items()}
        properties = {
            **lacking_guards(metadata.properties),
            **lacking_schema_seal(metadata),
            **changed,
            **guards_of(changed),
        }
        if schema is not None:
            properties |= schema_seal_property(self.table_metadata)
        gone = {name for update in updates for name in update.properties_gone}
        properties = {name: text for name, text in properties.items() if name not in gone}
        if present := sorted(gone & metadata.properties.keys()):
            self.remove_properties(*present)
        seal = seal_property(
            {**metadata.properties, **properties},
            table_uuid=str(metadata.table_uuid),
            snapshot_id=snapshot.snapshot_id,
            manifests=manifests,
            total=total_after(metadata.properties, properties),
            stream=stream,
        )
        self.set_properties({**properties, **seal})
        if SCHEMA_SEAL_PROPERTY in properties:
            # Columns are added without a snapshot: a seal of those before must not be laid over them.
            self._requirements += (
                AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
                AssertDefaultSpecId(default_spec_id=spec_id),
            )
        return int(snapshot.snapshot_id)

    def stage_expiry(self, limits: HistoryLimits) -> int:
        """Stage that the snapshots go which ``limits`` and the table's refs let go, and their statistics; how many.

        Asserts what each branch and tag names: a snapshot that one of them was set to meanwhile takes it along.
        """
        metadata = self.table_metadata
        gone = expired(metadata.snapshots, metadata.refs, limits, self._now_ms)
        if not gone:
            return 0
        self._stage((*_statistics_of(metadata, frozenset(gone)), RemoveSnapshotsUpdate(snapshot_ids=list(gone))))
        # Not as requirements of the stage: the library keeps only the first of a kind.
        self._requirements += tuple(
            AssertRefSnapshotId(ref=name, snapshot_id=ref.snapshot_id)
            for name, ref in self._table.metadata.refs.items()
        )
        return len(gone)

    def _stage_stream(
        self, main: SealedProducer, updates: Sequence[SnapshotUpdate], proven: ProvenManifests
    ) -> StreamSeal | None:
        """The snapshot of the stream's branch that belongs to ``main``'s; as sealed where nothing changes there."""
        kept = [file for update in updates for file in update.kept]
        came = [file for update in updates for file in update.came]
        left = [file for update in updates for file in update.left]
        if not kept and not came and not left:
            return sealed_stream(self._table.metadata)
        described, spec_id = main.gone_files(), self._table.metadata.default_spec_id
        # What was there before an erasure is kept neither by age nor by number, on this branch as on the other.
        summaries = (item for update in updates for item in update.summary.items())
        erased = {name: text for name, text in summaries if name.startswith(ERASED_PREFIX)}
        stream = KeepForStream(self._table, self, erased, proven)
        for file in kept:
            stream.append_data_file(described[file.path])
        for description in came:
            stream.append_data_file(description.to_iceberg(spec_id))
        for file in left:
            stream.remove(_entry_of(file, spec_id), file.manifest)
        stream.commit()
        return StreamSeal(snapshot_id=int(stream.snapshot_id), manifests=stream.manifest_seal())

    def commit_once(self) -> None:
        """Send what is staged, once, if anything is; the transaction's table is then the committed state.

        The library's own ``commit_transaction`` is not used: on a conflict it would apply the append again to a state
        nobody validated, and it removes the manifests of a commit that was answered with a conflict even where a retry
        of the transport had landed it. Files that a failed attempt leaves behind are unreferenced and cost only space.

        Raises CommitConflict or Unavailable (nothing was changed), Invalid (the catalog refuses the request), Corrupt
        (its database is damaged), CommitUnknown. What each answer of a catalog means: docs/commit_protocol.md.
        """
        if not self._updates:
            return
        table, where = self._table, self._table.metadata_location
        same_table = AssertTableUUID(uuid=table.metadata.table_uuid)
        try:
            table._do_commit(self._updates, (*self._requirements, same_table))
        except (CommitFailedException, NoSuchTableError, ValidationException) as error:
            raise CommitConflict(f"another commit came first: {line_of(error)}", file=where) from error
        except BadRequestError as error:
            refusal = clock_refusal(str(error), now_ms=self._now_ms, where=where)
            if refusal is not None:
                raise refusal from error
            raise Invalid(f"the catalog refuses the commit: {line_of(error)}", file=where) from error
        except _REFUSALS as error:
            raise Unavailable(f"the catalog refuses the commit: {line_of(error)}", file=where) from error
        except (*NO_ANSWER, ValueError) as error:
            if isinstance(error, SQLAlchemyError) and is_refused(error):
                raise database_error("the commit was not made", error, where) from error
            raise CommitUnknown(f"the commit was not answered: {line_of(error)}", file=where) from error


def _statistics_of(metadata: TableMetadata, gone: frozenset[int]) -> Iterator[TableUpdate]:
    """Not every catalog removes them with their snapshot."""
    for snapshot_id in {one.snapshot_id for one in metadata.statistics} & gone:
        yield RemoveStatisticsUpdate(snapshot_id=snapshot_id)
    for snapshot_id in {one.snapshot_id for one in metadata.partition_statistics} & gone:
        yield RemovePartitionStatisticsUpdate(snapshot_id=snapshot_id)


def _entry_of(file: TableFile, spec_id: int) -> DataFile:
    """Names one of our own files; what manifests say of it is looked up by path."""
    entry = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.path,
        file_format=FileFormat.PARQUET,
        partition=Record(file.partition),
        record_count=file.record_count,
        file_size_in_bytes=file.size_bytes,
    )
    entry.spec_id = spec_id
    return entry
