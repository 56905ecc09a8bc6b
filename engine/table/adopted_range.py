"""Ranges whose files another program wrote, proven to hold the records that were stored there: kept with the table.

One table property a partition, ``floeberg.adopted.<partition>``, compressed where it is long. A file beside the
metadata would be shorter still, but engines that look for orphans remove what no manifest names.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from engine.errors import Invalid
from engine.offset_range import OffsetRange
from engine.records.digest import RangeDigest

_LARGEST_PLAIN_BYTES = 4 << 10
_COMPRESSED = "zlib:"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ForeignFile:
    """A data file that this program did not write, as its manifest describes it; ``crc32c`` of its bytes as they were
    when its rows were proven, None before, and of what an earlier version adopted."""

    path: str
    partition: int
    size_bytes: int
    record_count: int
    crc32c: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedRange:
    """The rows of ``files`` that lie in ``range`` are all its records, and have this ``digest`` in offset order.

    A file may reach into several ranges, and its rows may lie in any order.
    """

    partition: int
    range: OffsetRange
    digest: RangeDigest
    files: tuple[ForeignFile, ...]


def adopted_to_json(ranges: Iterable[AdoptedRange], location: str) -> str:
    """The ranges of one partition, rising; paths below the table's ``location`` are written relative to it."""
    root = _below(location)
    text = json.dumps(
        [
            {
                "range": [adopted.range.start, adopted.range.end],
                "digest": adopted.digest.to_text(),
                "files": [[file.path.removeprefix(root), file.size_bytes, file.record_count] for file in adopted.files],
                # Beside the files, where an earlier version passes over it.
                "crc32c": [None if file.crc32c is None else f"{file.crc32c:08x}" for file in adopted.files],
            }
            for adopted in sorted(ranges, key=lambda adopted: adopted.range)
        ],
        separators=(",", ":"),
    )
    if len(text) <= _LARGEST_PLAIN_BYTES:
        return text
    return _COMPRESSED + base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def adopted_from_json(text: str, partition: int, location: str) -> tuple[AdoptedRange, ...]:
    """The inverse of ``adopted_to_json``. Raises Invalid for anything else."""
    try:
        if text.startswith(_COMPRESSED):
            text = zlib.decompress(base64.b64decode(text.removeprefix(_COMPRESSED))).decode()
        return tuple(
            AdoptedRange(
                partition=partition,
                range=OffsetRange(start=int(entry["range"][0]), end=int(entry["range"][1])),
                digest=RangeDigest.from_text(entry["digest"]),
                files=tuple(
                    ForeignFile(
                        path=path if ":/" in path or path.startswith("/") else _below(location) + path,
                        partition=partition,
                        size_bytes=int(size_bytes),
                        record_count=int(record_count),
                        crc32c=None if checksum is None else int(checksum, 16),
                    )
                    for (path, size_bytes, record_count), checksum in zip(
                        entry["files"], entry.get("crc32c") or [None] * len(entry["files"]), strict=True
                    )
                ),
            )
            for entry in json.loads(text)
        )
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, zlib.error) as error:
        raise Invalid(f"adopted ranges are not the JSON that this program writes: {error!r}") from error


def _below(location: str) -> str:
    return location.rstrip("/") + "/"
