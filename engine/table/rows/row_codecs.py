"""What turns the rows of a table into records and back: a codec for values and, where keys are typed, one for keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from engine.formats.codec import Decoded, ValueCodec, open_codec
from engine.records.records import Records
from engine.table.topic_table import TableFacts, TopicTable


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCodecs:
    """``key`` is None where the key's column is the key itself. Not to be shared between threads, as codecs are not."""

    value: ValueCodec
    key: ValueCodec | None = None

    @classmethod
    def of(cls, table: TopicTable | TableFacts) -> Self:
        """Raises Invalid for a format that does not exist or columns that it can't fill."""
        key = None if table.key_codec is None else open_codec(table.key_codec, table.key_fields)
        return cls(value=open_codec(table.codec, table.value_fields), key=key)

    def decode(self, records: Records) -> tuple[Decoded, Decoded | None]:
        """What becomes of values and, where they are typed, of keys."""
        return self.value.decode(records.value), None if self.key is None else self.key.decode(records.key)
