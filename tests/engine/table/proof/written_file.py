"""A written Parquet file taken apart into what it says of itself, each part of which can be changed before it is put
together again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from engine.parquet.checksums import CHECKSUMS_KEY, ChecksummedFile
from engine.parquet.footer import MAGIC, TRAILER_BYTES
from tests.engine.parquet.thrift_tree import Node, encode, parse

_GROUPS, _KEY_VALUES = 4, 5
_CHUNKS = 1
_METADATA = 3
_OFFSET_INDEX, _COLUMN_INDEX = 4, 6
"""Fields of a ColumnChunk: where it is, and how long in the next one."""


@dataclass(slots=True, kw_only=True)
class Chunk:
    """A column chunk of the footer, and its parts of the page index."""

    node: Node
    offset_index: Node | None
    column_index: Node | None

    @property
    def metadata(self) -> Node:
        return self.node[_METADATA]

    @property
    def statistics(self) -> Node | None:
        return self.metadata.get(12)


@dataclass(slots=True, kw_only=True)
class WrittenFile:
    """``pages``: the file up to its page index; ``stray`` goes between the two."""

    pages: bytearray
    footer: Node
    chunks: list[Chunk]
    stray: bytes = b""

    @classmethod
    def parse(cls, content: bytes) -> Self:
        size = int.from_bytes(content[-TRAILER_BYTES : -len(MAGIC)], "little")
        footer, _ = parse(content, len(content) - TRAILER_BYTES - size)
        chunks = [
            Chunk(
                node=chunk,
                offset_index=_part(content, chunk, _OFFSET_INDEX),
                column_index=_part(content, chunk, _COLUMN_INDEX),
            )
            for group in footer[_GROUPS].value
            for chunk in group[_CHUNKS].value
        ]
        end = json.loads(_checksums_value(footer).value)["data_end"]
        return cls(pages=bytearray(content[:end]), footer=footer, chunks=chunks)

    @property
    def groups(self) -> list[Node]:
        found: list[Node] = self.footer[_GROUPS].value
        return found

    def page_headers(self, chunk: Chunk) -> Iterator[tuple[int, Node]]:
        """(place, header) of each page of a chunk, a dictionary first."""
        metadata = chunk.metadata
        at = metadata[11 if 11 in metadata else 9].value
        end = at + metadata[7].value
        while at < end:
            header, body = parse(bytes(self.pages), at)
            yield at, header
            at = body + header[3].value

    def put_page_header(self, at: int, header: Node) -> None:
        """In place of the header that begins at ``at``, and as long."""
        _, end = parse(bytes(self.pages), at)
        encoded = encode(header)
        assert len(encoded) == end - at, "all that follows would move"
        self.pages[at:end] = encoded

    def write_to(self, sink: ChecksummedFile) -> None:
        """Put together again, with checksums that are true of what it has become."""
        sink.write(self.pages)
        _checksums_value(self.footer).value = sink.key_value()[CHECKSUMS_KEY].encode()
        tail = bytearray(self.stray)
        for chunk in self.chunks:
            for field, part in ((_COLUMN_INDEX, chunk.column_index), (_OFFSET_INDEX, chunk.offset_index)):
                if part is not None:
                    encoded = encode(part)
                    chunk.node[field].value, chunk.node[field + 1].value = len(self.pages) + len(tail), len(encoded)
                    tail += encoded
        footer = encode(self.footer)
        sink.write(tail + footer + len(footer).to_bytes(4, "little") + MAGIC)


def _part(content: bytes, chunk: Node, field: int) -> Node | None:
    return parse(content, chunk[field].value)[0] if field in chunk else None


def _checksums_value(footer: Node) -> Node:
    return next(pair[2] for pair in footer[_KEY_VALUES].value if pair[1].value == CHECKSUMS_KEY.encode())
