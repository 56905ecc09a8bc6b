"""A table file: its name, its footer's own account of itself, and the description that travels to the commit."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from engine.errors import Corrupt, Invalid
from engine.offset_range import OffsetRange
from engine.parquet.footer import ParquetFooter
from engine.records.digest import RangeDigest
from engine.table.columns import MILLISECONDS_KEPT, US_PER_MS
from engine.table.windows import Clustering, FileWindows

FORMAT_VERSION = 2
"""The newest that this program reads. A file in stream order is of version 1, one with windows of version 2: whoever
knows of no windows would take its rows for misplaced ones."""
FOOTER_PREFIX = "floeberg."
_WINDOWS_KEY = f"{FOOTER_PREFIX}windows"

CHECKSUM_COLUMN_ID = 2147483446
"""In a manifest entry's ``column_sizes``, under an id that no column has, stands the checksum of the file's footer.

The specification has no field for it. Sizes of columns that the schema doesn't have are nothing new to a reader: those
of dropped columns stay. It is one below the greatest id that a column may have (2147483447), which none gets to.
"""

CLUSTERING_COLUMN_ID = CHECKSUM_COLUMN_ID - 1
"""And there, a checksum of how its rows are clustered, where they are: compaction tells by it, without the footers,
which files are not as the settings ask for now."""

_FILE_NAME = re.compile(
    r"(?:^|/)p=(?P<partition>\d+)/(?P<start>\d{20})-(?P<end>\d{20})-e(?P<epoch>-?\d+)-(?P<attempt>[0-9a-zA-Z]+)\.parquet$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileName:
    """What a file's name says: which offsets of which partition, under which leader epoch, in which attempt.

    ``str()`` is the path below a table's ``data/<topic id>`` folder.
    """

    partition: int
    range: OffsetRange
    leader_epoch: int
    attempt: str

    def __str__(self) -> str:
        offsets = f"{self.range.start:020d}-{self.range.end:020d}"
        return f"p={self.partition}/{offsets}-e{self.leader_epoch}-{self.attempt}.parquet"


def data_folder(location: str, topic_id: str) -> str:
    """Where all data files of a table are that this program wrote."""
    return f"{location.rstrip('/')}/data/{topic_id}"


def data_path(location: str, topic_id: str, name: FileName) -> str:
    """The full path or URI of a new data file of a table."""
    return f"{data_folder(location, topic_id)}/{name}"


def parse_file_name(path: str) -> FileName:
    """What a path's last parts say. Raises Invalid when this program did not name the file."""
    match = _FILE_NAME.search(path)
    if match is None:
        raise Invalid("a data file's name does not say which offsets it covers", file=path)
    return FileName(
        partition=int(match["partition"]),
        range=OffsetRange(start=int(match["start"]), end=int(match["end"])),
        leader_epoch=int(match["epoch"]),
        attempt=match["attempt"],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFooter:
    """The key-value metadata of a file's footer: enough to know what the file is with nothing else at hand.

    ``unresolved``: records without columns by the id of the schema that could not be had, None where the file does not
    say; ``unresolved_keys`` the same for typed keys. ``windows`` where its rows are clustered, None in stream order.
    """

    topic: str
    topic_id: str
    partition: int
    range: OffsetRange
    record_count: int
    digest: RangeDigest
    codec: str
    codec_version: int
    schema_ids: tuple[int, ...]
    unresolved: Mapping[int, int] | None = None
    key_codec_version: int | None = None
    key_schema_ids: tuple[int, ...] = ()
    unresolved_keys: Mapping[int, int] | None = None
    windows: FileWindows | None = None

    @property
    def format_version(self) -> int:
        """The least version of a reader that understands the file."""
        return 1 if self.windows is None else 2

    def window_starts(self, group_count: int, *, file: str) -> Sequence[int]:
        """The first row group of each window, and the end; in stream order each row group is one.

        Raises Corrupt where the file has fewer row groups than its windows need.
        """
        if self.windows is None:
            return range(group_count + 1)
        first_groups = self.windows.first_groups
        if first_groups[-1] >= group_count:
            problem = f"the footer says that a window begins at row group {first_groups[-1]}, there are {group_count}"
            raise Corrupt(problem, file=file)
        return (*first_groups, group_count)

    def to_key_values(self) -> dict[str, str]:
        of_keys = {f"{FOOTER_PREFIX}key_schema_ids": json.dumps(list(self.key_schema_ids))}
        said = {
            f"{FOOTER_PREFIX}unresolved_schemas": self.unresolved,
            f"{FOOTER_PREFIX}key_codec_version": self.key_codec_version,
            f"{FOOTER_PREFIX}unresolved_key_schemas": self.unresolved_keys,
        }
        return {
            f"{FOOTER_PREFIX}format_version": str(self.format_version),
            f"{FOOTER_PREFIX}topic": self.topic,
            f"{FOOTER_PREFIX}topic_id": self.topic_id,
            f"{FOOTER_PREFIX}partition": str(self.partition),
            f"{FOOTER_PREFIX}range": json.dumps([self.range.start, self.range.end]),
            f"{FOOTER_PREFIX}record_count": str(self.record_count),
            f"{FOOTER_PREFIX}digest": self.digest.to_text(),
            f"{FOOTER_PREFIX}codec": self.codec,
            f"{FOOTER_PREFIX}codec_version": str(self.codec_version),
            f"{FOOTER_PREFIX}schema_ids": json.dumps(list(self.schema_ids)),
            **(of_keys if self.key_schema_ids else {}),
            **{name: json.dumps(value) for name, value in said.items() if value is not None},
            **({} if self.windows is None else {_WINDOWS_KEY: self.windows.to_json()}),
        }

    @classmethod
    def from_key_values(cls, metadata: Mapping[bytes, bytes] | None, *, file: str) -> Self:
        """Raises Corrupt, naming the file, when a key is missing or says nothing sensible."""
        try:
            named = {key.decode(): value.decode() for key, value in (metadata or {}).items()}
            version = int(named[f"{FOOTER_PREFIX}format_version"])
            start, end = json.loads(named[f"{FOOTER_PREFIX}range"])
            footer = cls(
                topic=named[f"{FOOTER_PREFIX}topic"],
                topic_id=named[f"{FOOTER_PREFIX}topic_id"],
                partition=int(named[f"{FOOTER_PREFIX}partition"]),
                range=OffsetRange(start=start, end=end),
                record_count=int(named[f"{FOOTER_PREFIX}record_count"]),
                digest=RangeDigest.from_text(named[f"{FOOTER_PREFIX}digest"]),
                codec=named[f"{FOOTER_PREFIX}codec"],
                codec_version=int(named[f"{FOOTER_PREFIX}codec_version"]),
                schema_ids=tuple(json.loads(named[f"{FOOTER_PREFIX}schema_ids"])),
                unresolved=_counts(named.get(f"{FOOTER_PREFIX}unresolved_schemas")),
                key_codec_version=json.loads(named.get(f"{FOOTER_PREFIX}key_codec_version", "null")),
                key_schema_ids=tuple(json.loads(named.get(f"{FOOTER_PREFIX}key_schema_ids", "[]"))),
                unresolved_keys=_counts(named.get(f"{FOOTER_PREFIX}unresolved_key_schemas")),
                windows=FileWindows.from_json(named[_WINDOWS_KEY]) if _WINDOWS_KEY in named else None,
            )
        except (KeyError, ValueError, TypeError, AttributeError, Invalid) as error:
            raise Corrupt(f"a data file's footer does not say what the file is: {error!r}", file=file) from error
        if version > FORMAT_VERSION:
            raise Invalid(
                f"a data file has format version {version}, this program reads up to {FORMAT_VERSION}",
                file=file,
                next_step="upgrade floeberg",
            )
        return footer


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStats:
    """One leaf column of a file, by field id: bytes in the file, values, nulls, NaNs (floats only), bounds."""

    size_bytes: int
    value_count: int
    null_count: int | None
    nan_count: int | None = None
    lower: bytes | None = None
    upper: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDescription:
    """Everything a commit needs to know of a file that was written, and a verifier to check it; picklable.

    ``range`` the offsets covered, ``digest`` of the *log's* records in it, ``checksum`` CRC-32C of the file's bytes as
    they were handed to the warehouse, ``footer_checksum`` its footer's (engine/parquet/checksums.py); ``raw_rows`` rows
    that keep their value's bytes beside typed columns, ``error_rows`` rows without typed columns; ``columns`` by field
    id; ``split_offsets`` where row groups begin; ``clustering`` None in stream order; ``begun_at`` the sequence number
    of a state of the table that was loaded before the file was begun.
    """

    path: str
    topic: str
    topic_id: str
    partition: int
    range: OffsetRange
    leader_epoch: int
    record_count: int
    size_bytes: int
    checksum: int
    footer_checksum: int
    digest: RangeDigest
    schema_ids: tuple[int, ...]
    raw_rows: int
    error_rows: int
    columns: Mapping[int, ColumnStats]
    split_offsets: tuple[int, ...]
    clustering: Clustering | None = None
    begun_at: int = 0

    def to_iceberg(self, spec_id: int) -> DataFile:
        """The manifest's entry: the one partition value is ``kafka_partition`` itself (identity)."""
        columns = self.columns
        data_file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=self.path,
            file_format=FileFormat.PARQUET,
            partition=Record(self.partition),
            record_count=self.record_count,
            file_size_in_bytes=self.size_bytes,
            column_sizes={
                **{key: stats.size_bytes for key, stats in columns.items()},
                CHECKSUM_COLUMN_ID: self.footer_checksum,
                **({} if self.clustering is None else {CLUSTERING_COLUMN_ID: self.clustering.checksum}),
            },
            value_counts={key: stats.value_count for key, stats in columns.items()},
            null_value_counts={key: stats.null_count for key, stats in columns.items() if stats.null_count is not None},
            nan_value_counts={key: stats.nan_count for key, stats in columns.items() if stats.nan_count is not None},
            lower_bounds={key: stats.lower for key, stats in columns.items() if stats.lower is not None},
            upper_bounds={key: stats.upper for key, stats in columns.items() if stats.upper is not None},
            key_metadata=None,
            split_offsets=list(self.split_offsets),
            equality_ids=None,
            sort_order_id=None,
        )
        data_file.spec_id = spec_id
        return data_file


def footer_checksum_of(entry: DataFile) -> int | None:
    """What a manifest entry says of its file's footer; None where nothing, as earlier versions wrote it."""
    return (entry.column_sizes or {}).get(CHECKSUM_COLUMN_ID)


def clustering_checksum_of(entry: DataFile) -> int | None:
    """What a manifest entry says of how its file is clustered (``Clustering.checksum``); None in stream order."""
    return (entry.column_sizes or {}).get(CLUSTERING_COLUMN_ID)


def newest_timestamp_ms(entry: DataFile, timestamp_id: int, timestamp_type_id: int) -> int | None:
    """The newest timestamp of a file's records by the upper bounds in its manifest entry; None where they don't tell
    it: no bounds, records without a timestamp alone (-1), or among them one that the column keeps in another unit."""
    newest, kind = _upper_bound(entry, timestamp_id), _upper_bound(entry, timestamp_type_id)
    if newest is None or kind is None or kind >= MILLISECONDS_KEPT or newest < 0:
        return None
    return newest // US_PER_MS


def _upper_bound(entry: DataFile, column_id: int) -> int | None:
    """Of a column of whole numbers (Iceberg table specification, "Binary single-value serialization")."""
    bound = (entry.upper_bounds or {}).get(column_id)
    return None if bound is None else int.from_bytes(bound, "little", signed=True)


def check_footer(footer: ParquetFooter, checksum: int | None) -> None:
    """Raises Corrupt when a file, whole as it may be, is not the one that the table was given: ``checksum`` is what its
    manifest entry says of its footer, which vouches for all other bytes."""
    if checksum is not None and (footer.checksums is None or footer.checksums.footer != checksum):
        raise Corrupt(
            "the file is not the one that the table was given: its footer has another checksum than the manifest says",
            file=footer.file,
            next_step="run floeberg fsck; restore the file from a copy of the warehouse",
        )


def _counts(text: str | None) -> dict[int, int] | None:
    return None if text is None else {int(schema_id): int(count) for schema_id, count in json.loads(text).items()}
