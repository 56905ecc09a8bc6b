"""Wrong ways to commit: what docs/commit_protocol.md forbids, written out."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, AssertTableUUID

from engine.errors import CommitUnknown, FloebergError
from engine.table.catalog import access as catalogs
from engine.table.commit.transaction import CommitConflict, TableTransaction
from engine.table.data_file import FileDescription, FileFooter
from engine.table.proof.verification import Verification
from workers.workers import ReadBackTask


def evidence_as_told(task: ReadBackTask) -> Verification:
    """Of a file that nobody read: made of what was to be written."""
    return Verification(
        path=task.file.path,
        size_bytes=task.file.size_bytes,
        checksum=task.file.checksum,
        footer_checksum=task.file.footer_checksum,
        columns={},
        footer=_footer_of(task.file),
        partition=task.file.partition,
        offsets=None,
        digest=task.file.digest,
    )


def _footer_of(file: FileDescription) -> FileFooter:
    return FileFooter(
        topic=file.topic,
        topic_id=file.topic_id,
        partition=file.partition,
        range=file.range,
        record_count=file.record_count,
        digest=file.digest,
        codec="string",
        codec_version=1,
        schema_ids=(),
    )


def blind_retry() -> AbstractContextManager[Any]:
    """As the library would: the same files and properties again, on whatever is newest now."""
    return _made_again_after(CommitConflict)


def snapshot_not_asserted() -> AbstractContextManager[Any]:
    """The commit lands on whatever is newest, with the ledger of what it was decided on.

    A catalog refuses a snapshot whose sequence number is not the next (specification, "Sequence Numbers"), so the
    number is taken from the newest state, as a catalog that numbers snapshots itself would.
    """

    def commit(transaction: TableTransaction) -> None:
        table, newest = transaction._table, newest_of(transaction)
        moved = newest.metadata.current_snapshot_id != table.metadata.current_snapshot_id
        sent = _made_again(newest, transaction) if moved else transaction
        kept = tuple(one for one in sent._requirements if not isinstance(one, AssertRefSnapshotId))
        try:
            table._do_commit(sent._updates, (*kept, AssertTableUUID(uuid=table.metadata.table_uuid)))
        except CommitFailedException as error:
            raise CommitConflict(f"another commit came first: {error}") from error
        except Exception as error:
            raise CommitUnknown(f"the commit was not answered: {error!r}") from error

    return mock.patch.object(TableTransaction, "commit_once", commit)


def unanswered_commit_made_again() -> AbstractContextManager[Any]:
    """After a lost answer the same files are added once more, and the ledger is not asked."""
    return _made_again_after(CommitUnknown)


def unanswered_commit_taken_for_done() -> AbstractContextManager[Any]:
    """After a lost answer the writer goes on as if the commit were there."""
    right = TableTransaction.commit_once

    def commit(transaction: TableTransaction) -> None:
        try:
            right(transaction)
        except CommitUnknown:
            transaction._table.metadata = transaction.table_metadata

    return mock.patch.object(TableTransaction, "commit_once", commit)


def _made_again_after(failure: type[FloebergError]) -> AbstractContextManager[Any]:
    right = TableTransaction.commit_once

    def commit(transaction: TableTransaction) -> None:
        try:
            right(transaction)
        except failure:
            table, newest = transaction._table, newest_of(transaction)
            right(_made_again(newest, transaction))
            table.metadata, table.metadata_location = newest.metadata, newest.metadata_location

    return mock.patch.object(TableTransaction, "commit_once", commit)


def newest_of(transaction: TableTransaction) -> Table:
    newest = catalogs.load(transaction._table.catalog, transaction._table.name())
    assert newest is not None, "tables are never dropped"
    return newest


def _made_again(newest: Table, transaction: TableTransaction) -> TableTransaction:
    """The transaction's files and properties, as they were decided on its table, on top of ``newest``."""
    again = TableTransaction(newest, transaction._now_ms)
    append = again.update_snapshot().fast_append()
    for file in _files_added(transaction):
        append.append_data_file(file)
    append.commit()
    again._updates += tuple(one for one in transaction._updates if one.action == "set-properties")
    return again


def _files_added(transaction: TableTransaction) -> list[Any]:
    for update in transaction._updates:
        if isinstance(update, AddSnapshotUpdate):
            snapshot = update.snapshot
            return [
                entry.data_file
                for manifest in snapshot.manifests(transaction._table.io)
                if manifest.added_snapshot_id == snapshot.snapshot_id
                for entry in manifest.fetch_manifest_entry(transaction._table.io, discard_deleted=True)
            ]
    return []
