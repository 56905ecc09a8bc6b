"""Checksums of a table file's own bytes, in its footer: every bit of the file is covered by one of them.

Key ``floeberg.checksums``, JSON; each checksum is a CRC-32C:

    {"footer": digits, "page_index": list, "data": list, "data_end": byte}

``data``: of each 16 KiB of the file from its first byte to ``data_end``, the end of the last row group; of less at the
end. ``page_index``: of the bytes from there to the footer, in as many equal parts as the list has entries, the last one
maybe shorter. A list is base64 of little-endian 32-bit numbers. ``footer``: 8 hexadecimal digits, of the footer itself
(FileMetaData), these digits taken as zeros; the footer's length and both magics can't be other than they are. So
whoever knows the footer's checksum knows every bit: the table's manifests keep it (data_file.py).
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import crc32c
import numpy as np
from numpy.typing import NDArray

from engine.errors import Corrupt
from engine.parquet.thrift import ThriftTape

CHECKSUMS_KEY = "floeberg.checksums"

BLOCK_BYTES = 16 << 10
"""About a page of one column: a read of a few pages proves little else. The lists add a three-thousandth to a file."""

_INDEX_PART_OF_BYTES = 2 << 20
"""The page index has one part for so many bytes of data: about that of one row group."""

_TRAILER_BYTES = 8
_DIGITS = 8
_FOOTER_AT = len('{"footer": "')
_PAGE_INDEX_AT = len('{"footer": "00000000", "page_index": "')


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileChecksums:
    """What a footer that is as it was written says: its own checksum, and those of the parts before it, side by side:
    uint32 each, ``data`` up to byte ``data_end``, then ``page_index``."""

    footer: int
    data: NDArray[np.uint32]
    data_end: int
    page_index: NDArray[np.uint32]

    @classmethod
    def of_footer(cls, encoded: memoryview, value: slice, *, file: str) -> Self:
        """``value``: where in the encoded footer the value of ``CHECKSUMS_KEY`` stands. Raises Corrupt when the footer
        is not as it was written."""
        content = bytearray(encoded)
        digits = slice(value.start + _FOOTER_AT, value.start + _FOOTER_AT + _DIGITS)
        try:
            said = json.loads(bytes(content[value]))
            found = cls(
                footer=int(said["footer"], 16),
                data=_unpacked(said["data"]),
                data_end=int(said["data_end"]),
                page_index=_unpacked(said["page_index"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise Corrupt(f"the footer's checksums are damaged: {error!r}", file=file) from error
        is_at_its_place = bytes(content[digits]) == b"%08x" % found.footer
        content[digits] = b"0" * _DIGITS
        if not is_at_its_place or crc32c.crc32c(bytes(content)) != found.footer:
            raise Corrupt("the bytes of its footer are not those that were written", file=file)
        return found

    def edges(self, *, footer_start: int, file: str) -> NDArray[np.int64]:
        """Where the parts of a file begin whose footer begins at byte ``footer_start``, which is the last entry:
        int64[parts + 1]. Raises Corrupt when they don't fit the file."""
        size = footer_start - self.data_end
        blocks = np.arange(len(self.data)) * BLOCK_BYTES
        if size < 0 or len(self.data) != -(-self.data_end // BLOCK_BYTES) or not len(self.page_index):
            raise Corrupt("the footer's checksums are of other parts than the file has", file=file)
        step = -(-size // len(self.page_index))
        parts = self.data_end + np.minimum(np.arange(len(self.page_index) + 1) * step, size)
        return np.concatenate([blocks, parts])


class ChecksummedFile(io.RawIOBase):
    """Stands between a Parquet writer and the file it writes to, and fills the checksums in as the footer passes.

    A file object for ``pyarrow.PythonFile``. Knows nothing of the writer but that it writes from the front to the back
    and its footer, which has ``key_value``, last. Memory: what is written after ``key_value`` was asked for.
    """

    def __init__(self, write: Callable[[memoryview], object]) -> None:
        self._write = write
        self._position = 0
        self._data: list[int] = []
        self._index_parts = 0
        self._tail: bytearray | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        content = memoryview(data).cast("B")
        if self._tail is not None:
            self._tail += content
            return len(content)
        at = 0
        while at < len(content):
            inside = self._position % BLOCK_BYTES
            part = content[at : at + BLOCK_BYTES - inside]
            if inside == 0:
                self._data.append(0)
            self._data[-1] = crc32c.crc32c(part, self._data[-1])
            self._position += len(part)
            at += len(part)
        self._write(content)
        return len(content)

    def drop(self) -> None:
        """The file will not be: what a writer still writes, as its buffers are collected, goes nowhere."""
        self._write = len

    def key_value(self) -> dict[str, str]:
        """For the footer, after the last row group; page index and footer are held back from now on."""
        self._tail = bytearray()
        self._index_parts = self._position // _INDEX_PART_OF_BYTES + 1
        said = {
            "footer": "0" * _DIGITS,
            "page_index": _packed([0] * self._index_parts),
            "data": _packed(self._data),
            "data_end": self._position,
        }
        return {CHECKSUMS_KEY: json.dumps(said)}

    def finish(self) -> int:
        """Write what was held back, now that all of it is there; returns the footer's checksum."""
        assert self._tail is not None, "the footer has the checksums' key"
        tail = self._tail
        end = len(tail) - _TRAILER_BYTES
        start = end - int.from_bytes(tail[end : end + 4], "little")
        footer = np.frombuffer(tail, np.uint8)[start:end]
        value = value_place(ThriftTape.read(footer.copy(), file="a new file", what="Parquet footer"))
        assert value is not None, "the footer has the checksums' key"
        step = -(-start // self._index_parts)
        parts = [tail[min(at * step, start) : min((at + 1) * step, start)] for at in range(self._index_parts)]
        _put(tail, start + value.start + _PAGE_INDEX_AT, _packed([crc32c.crc32c(bytes(part)) for part in parts]))
        checksum = int(crc32c.crc32c(bytes(tail[start:end])))
        _put(tail, start + value.start + _FOOTER_AT, f"{checksum:08x}")
        self._write(memoryview(tail))
        return checksum


def _put(content: bytearray, at: int, text: str) -> None:
    content[at : at + len(text)] = text.encode()


def _packed(checksums: list[int]) -> str:
    return base64.b64encode(np.array(checksums, "<u4").tobytes()).decode()


def _unpacked(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(base64.b64decode(text, validate=True), "<u4")


def value_place(tape: ThriftTape, key: str = CHECKSUMS_KEY) -> slice | None:
    """Where in an encoded footer the value of a key stands, None where it has no such key."""
    entry = tape.fields_of(0).get(5)
    for pair in () if entry is None else tape.items_of(entry):
        fields = tape.fields_of(pair)
        if {1, 2} <= fields.keys() and tape.bytes_of(fields[1]) == key.encode():
            end = int(tape.end[fields[2]])
            return slice(end - int(tape.value[fields[2]]), end)
    return None
