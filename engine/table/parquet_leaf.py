"""One leaf column of a row group in the making: pieces of Arrow arrays go in, the pages of a column chunk come out."""

from __future__ import annotations

from engine.errors import Invalid
from engine.table.parquet_dictionary import Dictionary, NumberDictionary, StringDictionary
from engine.table.parquet_levels import EncodedLevels, LevelBuffer
from engine.table.parquet_settings import (
    DELTA_BINARY_PACKED,
    DELTA_BYTE_ARRAY,
    DELTA_LENGTH_BYTE_ARRAY,
    DICTIONARY,
    PLAIN,
)
from engine.table.parquet_shredding import LeafPiece
from engine.table.parquet_values import (
    BOOLEAN,
    BYTE_ARRAY,
    DOUBLE,
    FIXED_LEN_BYTE_ARRAY,
    FLOAT,
    INT32,
    INT64,
    EncodedValues,
    Leaf,
    Numbers,
    Scratch,
    Strings,
)

ENCODINGS_OF = {
    BOOLEAN: {PLAIN},
    INT32: {PLAIN, DELTA_BINARY_PACKED, DICTIONARY},
    INT64: {PLAIN, DELTA_BINARY_PACKED, DICTIONARY},
    FLOAT: {PLAIN, DICTIONARY},
    DOUBLE: {PLAIN, DICTIONARY},
    BYTE_ARRAY: {PLAIN, DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY, DICTIONARY},
    FIXED_LEN_BYTE_ARRAY: {PLAIN, DICTIONARY},
}
"""What each physical type can be encoded as."""


class LeafWriter:
    """Values and levels of the rows so far; ``clear`` makes it ready for the next row group.

    ``otherwise`` is the encoding of a row group whose values a dictionary can't hold. Raises Invalid for an encoding
    that the column's type doesn't have.
    """

    def __init__(self, leaf: Leaf, *, encoding: str, otherwise: str) -> None:
        if encoding not in ENCODINGS_OF[leaf.physical]:
            raise Invalid(f"the column {'.'.join(leaf.path)} of type {leaf.kind} can't be encoded as {encoding}")
        self.leaf = leaf
        self._levels = LevelBuffer(
            deepest_definition=leaf.deepest_definition, deepest_repetition=leaf.deepest_repetition
        )
        self._dictionary: Dictionary | None = None
        if encoding == DICTIONARY:
            self._dictionary = StringDictionary(leaf) if leaf.is_bytes else NumberDictionary(leaf)
            encoding = otherwise
        self._values = Strings(leaf, encoding) if leaf.is_bytes else Numbers(leaf, encoding)
        self._is_indexed = self._dictionary is not None

    def clear(self) -> None:
        self._levels.clear()
        self._values.clear()
        if self._dictionary is not None:
            self._dictionary.clear()
        self._is_indexed = self._dictionary is not None

    def append(self, piece: LeafPiece, rows: int) -> None:
        """Add the column's part of ``rows`` more rows; the piece's memory may be reused afterwards."""
        self._levels.append(piece, rows)
        if not piece.value_count:
            return
        if self._dictionary is not None and self._is_indexed:
            if self._dictionary.append(piece):
                return
            self._dictionary.move_to(self._values)
            self._is_indexed = False
        self._values.append(piece)

    def encode(self, scratch: Scratch) -> tuple[EncodedLevels, EncodedValues]:
        """The pages, which stay in ``scratch`` until it is used again."""
        levels = self._levels.encode()
        if self._dictionary is not None and self._is_indexed and levels.value_count:
            return levels, self._dictionary.encode(levels, scratch)
        return levels, self._values.encode(levels, scratch)
