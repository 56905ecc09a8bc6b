"""Everything the manifests of a table's snapshot say of its files, bounds included, and without a judgement.

Reading by offset (``engine/table/manifests.py``) refuses a table that is not in order; a check has to list what is
there. Source: the Iceberg table specification, "Manifests".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyiceberg.exceptions import ValidationError
from pyiceberg.io import load_file_io
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.serializers import FromInputFile

from engine.errors import Corrupt, Unavailable
from engine.fsck_bounds import claims_of
from engine.fsck_file import ListedFile
from engine.table.topic_table import TopicTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The live entries of a snapshot; ``delete_paths`` those that delete rows instead of holding some."""

    files: tuple[ListedFile, ...]
    delete_paths: tuple[str, ...]


def list_files(table: TopicTable) -> Listing:
    """Raises Corrupt, naming the metadata file that is missing or damaged, and Unavailable."""
    files: list[ListedFile] = []
    deletes: list[str] = []
    for data_file in _entries(table):
        if data_file.content == DataFileContent.DATA:
            files.append(_listed(data_file))
        else:
            deletes.append(data_file.file_path)
    return Listing(files=tuple(sorted(files, key=lambda file: file.path)), delete_paths=tuple(sorted(deletes)))


def _entries(table: TopicTable) -> Iterator[DataFile]:
    if table.snapshot_id is None:
        return
    at = table.metadata_location
    try:
        io = load_file_io(properties=dict(table.warehouse.properties), location=at)
        metadata = FromInputFile.table_metadata(io.new_input(at))
        snapshot = metadata.snapshot_by_id(table.snapshot_id)
        if snapshot is None:
            raise Corrupt(f"the table's metadata has no snapshot {table.snapshot_id}", topic=table.topic, file=at)
        at = snapshot.manifest_list
        for manifest in snapshot.manifests(io):
            at = manifest.manifest_path
            for entry in manifest.fetch_manifest_entry(io, discard_deleted=True):
                yield entry.data_file
    except FileNotFoundError as error:
        raise Corrupt("a metadata file of the table is missing", topic=table.topic, file=at) from error
    except OSError as error:
        raise Unavailable(f"the warehouse does not answer: {error}", topic=table.topic, file=at) from error
    except (ValueError, KeyError, TypeError, EOFError, IndexError, ValidationError) as error:
        raise Corrupt(f"a metadata file of the table is damaged: {error}", topic=table.topic, file=at) from error


def _listed(data_file: DataFile) -> ListedFile:
    # One partition field, the identity of kafka_partition; a foreign table's may be null.
    partition = data_file.partition[0] if len(data_file.partition) else None
    return ListedFile(
        path=data_file.file_path,
        partition=-1 if partition is None else int(partition),
        record_count=int(data_file.record_count),
        size_bytes=int(data_file.file_size_in_bytes),
        claims=claims_of(
            value_counts=data_file.value_counts,
            null_counts=data_file.null_value_counts,
            nan_counts=data_file.nan_value_counts,
            lower_bounds=data_file.lower_bounds,
            upper_bounds=data_file.upper_bounds,
        ),
    )
