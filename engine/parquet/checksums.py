"""Checksums of a table file's own bytes, in its footer: every bit of the file is covered by one of them.

Key ``floeberg.checksums``, JSON; each checksum is a CRC-32C in 8 hexadecimal digits:

    {"footer": …, "page_index": …, "row_groups": [[end, checksum], …]}

``row_groups``: of each one's bytes, up to byte ``end`` of the file, the first from the leading magic on.
``page_index``: of the bytes from there to the footer. ``footer``: of the footer itself (FileMetaData), its own 8 digits
taken as zeros; the footer's length and both magics can't be other than they are. So whoever knows the footer's checksum
knows every bit: the table's manifests keep it (data_file.py).
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import crc32c
import numpy as np

from engine.errors import Corrupt
from engine.parquet.thrift import ThriftTape

CHECKSUMS_KEY = "floeberg.checksums"

_MAGIC_BYTES = 4
_TRAILER_BYTES = 8
_DIGITS = 8
_FOOTER_AT = len('{"footer": "')
_PAGE_INDEX_AT = len('{"footer": "00000000", "page_index": "')


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """Bytes ``start <= at < end`` of a file and their CRC-32C."""

    name: str
    start: int
    end: int
    checksum: int

    def check(self, content: memoryview, file: str) -> None:
        """Raises Corrupt when ``content``, the part's bytes as they are now, is not what was written."""
        if crc32c.crc32c(content) != self.checksum:
            raise Corrupt(
                f"the bytes of its {self.name} are not those that were written",
                file=file,
                next_step="run floeberg fsck; restore the file from a copy of the warehouse",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChecksums:
    """What a footer that is as it was written says: its own checksum, and the parts before it, side by side."""

    footer: int
    parts: tuple[FilePart, ...]

    @classmethod
    def of_footer(cls, encoded: memoryview, value: slice, *, file: str) -> Self:
        """``value``: where in the encoded footer the value of ``CHECKSUMS_KEY`` stands. Raises Corrupt when the footer
        is not as it was written."""
        content = bytearray(encoded)
        text = bytes(content[value])
        digits = slice(value.start + _FOOTER_AT, value.start + _FOOTER_AT + _DIGITS)
        try:
            said = json.loads(text)
            footer = int(said["footer"], 16)
            ends = [int(end) for end, _ in said["row_groups"]]
            sums = [int(checksum, 16) for _, checksum in said["row_groups"]]
            page_index = int(said["page_index"], 16)
        except (ValueError, KeyError, TypeError) as error:
            raise Corrupt(f"the footer's checksums are damaged: {error!r}", file=file) from error
        is_at_its_place = bytes(content[digits]) == b"%08x" % footer
        content[digits] = b"0" * _DIGITS
        if not is_at_its_place or crc32c.crc32c(bytes(content)) != footer:
            raise Corrupt("the bytes of its footer are not those that were written", file=file)
        starts = [_MAGIC_BYTES, *ends]
        parts = [
            FilePart(name=f"row group {number}", start=start, end=end, checksum=checksum)
            for number, (start, end, checksum) in enumerate(zip(starts, ends, sums, strict=False))
        ]
        parts.append(FilePart(name="page index", start=starts[-1], end=-1, checksum=page_index))
        return cls(footer=footer, parts=tuple(parts))

    def parts_of(self, *, footer_start: int, file: str) -> tuple[FilePart, ...]:
        """The parts of a file whose footer begins at byte ``footer_start``. Raises Corrupt when they don't fit it."""
        parts = (*self.parts[:-1], replace(self.parts[-1], end=footer_start))
        if any(part.end < part.start for part in parts):
            raise Corrupt("the footer's checksums are of other parts than the file has", file=file)
        return parts


class ChecksummedFile(io.RawIOBase):
    """Stands between a Parquet writer and the file it writes to, and fills the checksums in as the footer passes.

    A file object for ``pyarrow.PythonFile``. Knows nothing of the writer but that it writes from the front to the back
    and its footer, which has ``key_value``, last. Memory: what is written after ``key_value`` was asked for.
    """

    def __init__(self, write: Callable[[memoryview], object]) -> None:
        self._write = write
        self._position = 0
        self._checksum = 0
        self._groups: list[tuple[int, int]] = []
        self._tail: bytearray | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        content = memoryview(data)
        if self._tail is not None:
            self._tail += content
        else:
            self._checksum = crc32c.crc32c(content[max(0, _MAGIC_BYTES - self._position) :], self._checksum)
            self._position += len(content)
            self._write(content)
        return len(content)

    def drop(self) -> None:
        """The file will not be: what a writer still writes, as its buffers are collected, goes nowhere."""
        self._write = len

    def end_row_group(self) -> None:
        """What was written since the last row group is one."""
        self._groups.append((self._position, self._checksum))
        self._checksum = 0

    def key_value(self) -> dict[str, str]:
        """For the footer, after the last row group; page index and footer are held back from now on."""
        self._tail = bytearray()
        groups = [[end, f"{checksum:08x}"] for end, checksum in self._groups]
        return {CHECKSUMS_KEY: json.dumps({"footer": "0" * _DIGITS, "page_index": "0" * _DIGITS, "row_groups": groups})}

    def finish(self) -> int:
        """Write what was held back, now that all of it is there; returns the footer's checksum."""
        assert self._tail is not None, "the footer has the checksums' key"
        tail = self._tail
        end = len(tail) - _TRAILER_BYTES
        start = end - int.from_bytes(tail[end : end + 4], "little")
        footer = np.frombuffer(tail, np.uint8)[start:end]
        value = value_place(ThriftTape.read(footer.copy(), file="a new file", what="Parquet footer"))
        assert value is not None, "the footer has the checksums' key"
        _put_digits(tail, start + value.start + _PAGE_INDEX_AT, crc32c.crc32c(bytes(tail[:start])))
        checksum = int(crc32c.crc32c(bytes(tail[start:end])))
        _put_digits(tail, start + value.start + _FOOTER_AT, checksum)
        self._write(memoryview(tail))
        return checksum


def _put_digits(content: bytearray, at: int, checksum: int) -> None:
    content[at : at + _DIGITS] = b"%08x" % checksum


def value_place(tape: ThriftTape, key: str = CHECKSUMS_KEY) -> slice | None:
    """Where in an encoded footer the value of a key stands, None where it has no such key."""
    entry = tape.fields_of(0).get(5)
    for pair in () if entry is None else tape.items_of(entry):
        fields = tape.fields_of(pair)
        if {1, 2} <= fields.keys() and tape.bytes_of(fields[1]) == key.encode():
            end = int(tape.end[fields[2]])
            return slice(end - int(tape.value[fields[2]]), end)
    return None
