"""Which records are printed and how: all or those of a key; as lines, columns, JSON or by a format string."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.records.records import Records
from engine.table.rows.rows import RowCodecs
from engine.table.topic_table import TopicTable
from floeberg.cat.kcat_format import Part, formatted, parse_format
from floeberg.cat.plain_record import cell_text, column_getters, key_texts, plain_records, record_line


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPrinter:
    """``pieces`` of a format string: the bytes of a record as they are; without them it is decoded."""

    topic: str
    codecs: RowCodecs
    pieces: tuple[bytes | Part, ...] | None = None
    columns: Mapping[str, Callable[[dict[str, Any]], Any]] | None = None
    as_json: bool = False
    key: str | None = None

    @classmethod
    def of(
        cls, table: TopicTable, *, form: str | None, columns: Sequence[str], as_json: bool, key: str | None
    ) -> RecordPrinter:
        """Raises Invalid for a format string or columns that make no sense."""
        return cls(
            topic=table.topic,
            codecs=RowCodecs.of(table),
            pieces=None if form is None else parse_format(form),
            columns=column_getters(table, columns) if columns else None,
            as_json=as_json,
            key=key,
        )

    def rows(self, records: Records) -> Sequence[int]:
        """The rows that are printed."""
        if self.key is None:
            return range(len(records))
        wanted = self.key.encode()
        if self.codecs.key is None:
            return [row for row, key in enumerate(records.key.to_list()) if key == wanted]
        texts = key_texts(records, self.codecs)
        return [row for row, text in enumerate(texts) if text == self.key or records.key[row] == wanted]

    def lines(self, partition: int, records: Records) -> Iterator[bytes]:
        rows = self.rows(records)
        if not rows:
            return
        if self.pieces is not None:
            for row in rows:
                yield formatted(self.pieces, self.topic, partition, records, row)
            return
        plain = list(plain_records(records, partition, self.codecs))
        for row in rows:
            yield f"{self._line(plain[row])}\n".encode()

    def _line(self, record: dict[str, Any]) -> str:
        if self.columns is None:
            return json.dumps(record, ensure_ascii=False) if self.as_json else record_line(record)
        values = {name: of_record(record) for name, of_record in self.columns.items()}
        return json.dumps(values, ensure_ascii=False) if self.as_json else "\t".join(map(cell_text, values.values()))
