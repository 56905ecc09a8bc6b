"""What codecs with writers' schemas share: the schemas, each opened once against the table, and a block's verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import Corrupt, Invalid
from engine.formats.codec import NO_REASON, CodecSpec, Decoded, Verdict
from engine.formats.confluent_framing import FRAMING_REASON, NULL_VALUE

Opened = TypeVar("Opened")

NO_SCHEMA_ID = -(2**31)
"""Of a row that names none."""


class WriterSchemas(Generic[Opened]):
    """``open_schema`` makes of an id and its text what the codec runs, and raises Invalid for a text it can't use.

    ``infers``: schemas with negative ids are made from the values, and nobody is asked for them.
    """

    def __init__(self, spec: CodecSpec, open_schema: Callable[[int, str], Opened], *, infers: bool = False) -> None:
        self._spec = spec
        self._infers = infers
        self._open_schema = open_schema
        self._opened: dict[int, Opened] = {}
        self._problems: dict[int, str] = {}

    def get(self, schema_id: int) -> Opened | None:
        """None where ``problem_of`` says why. A schema that can't be used is no error of the block that names it."""
        if schema_id not in self._opened and schema_id not in self._problems:
            text = self._spec.schemas.get(schema_id)
            try:
                if text is None:
                    self._problems[schema_id] = self._lack_of(schema_id)
                else:
                    self._opened[schema_id] = self._open_schema(schema_id, text)
            except Invalid as error:
                self._problems[schema_id] = f"schema {schema_id} can't be used: {error.problem}"
        return self._opened.get(schema_id)

    def parts(
        self, schema_id: NDArray[np.int32], readable: NDArray[np.bool_], findings: Findings
    ) -> Iterator[tuple[int, Opened, NDArray[np.intp]]]:
        """A block's rows by the schema that they name, those that are ``readable``; the others are in the part of a
        block's only schema, which most blocks are: they are null to the arena too. What has no schema is noted."""
        present = distinct(schema_id if readable.all() else schema_id[readable])
        for identifier in present:
            rows = np.arange(len(readable))
            if len(present) > 1:
                rows = np.flatnonzero(readable & (schema_id == identifier))
            opened = self.get(identifier)
            if opened is None:
                findings.note(rows[readable[rows]], Verdict.UNDECODABLE, self._problems[identifier])
            else:
                yield identifier, opened, rows

    def problem_of(self, schema_id: int) -> str:
        """Why ``get`` gave None."""
        return self._problems[schema_id]

    def to_encode(self, schema_id: int) -> Opened:
        """Raises Corrupt: rows that were decoded by a schema can't be there without it."""
        if schema_id == NO_SCHEMA_ID:
            raise Corrupt("a row whose value is rebuilt from its columns names no schema")
        opened = self.get(schema_id)
        if opened is None:
            raise Corrupt(f"a row's value can't be rebuilt: {self._problems[schema_id]}")
        return opened

    def unknown(self, schema_ids: NDArray[np.int32]) -> frozenset[int]:
        """Those that the specification neither has nor lists as given up."""
        known = (self._spec.schemas, self._spec.unresolved)
        return frozenset(
            one for one in distinct(schema_ids) if not self._is_inferred(one) and not any(one in ids for ids in known)
        )

    def _is_inferred(self, schema_id: int) -> bool:
        return self._infers and schema_id < 0

    def _lack_of(self, schema_id: int) -> str:
        if self._is_inferred(schema_id):
            return "no schema is inferred yet from the values before it"
        return f"schema {schema_id} is unavailable: {self._spec.unresolved.get(schema_id, 'it is not known')}"


def ids_of(schema_id: pa.Array, row_count: int) -> NDArray[np.int32]:
    """The rows' schema ids, NO_SCHEMA_ID for null. Raises Corrupt where there are not ``row_count`` of them."""
    ids: NDArray[np.int32] = schema_id.fill_null(NO_SCHEMA_ID).to_numpy(zero_copy_only=False)
    if len(ids) != row_count:
        raise Corrupt(f"there are {len(ids)} schema ids for {row_count} rows")
    return ids


def distinct(values: NDArray[Any]) -> list[int]:
    """The different values, rising. Nearly every block has one, and finding that out needs no hash table."""
    if len(values) and values.min() == values.max():
        return [int(values[0])]
    found: list[int] = np.unique(values).tolist()
    return found


class Findings:
    """``verdict`` uint8[n] and ``reason`` int32[n] as ``Decoded`` has them; rows are exact until something is noted."""

    def __init__(self, row_count: int) -> None:
        self.verdict = np.full(row_count, Verdict.EXACT, np.uint8)
        self.reason = np.full(row_count, NO_REASON, np.int32)
        self._index_of: dict[str, int] = {}

    def note(self, rows: NDArray[np.intp], verdict: Verdict, text: str) -> None:
        if not len(rows):
            return
        self.verdict[rows] = verdict
        self.reason[rows] = self._index_of.setdefault(text, len(self._index_of))

    def note_framing(self, state: NDArray[np.uint8], reasons: Mapping[int, str] = FRAMING_REASON) -> None:
        """The rows whose header can't be read."""
        for code in distinct(state[state > NULL_VALUE]):
            self.note(np.flatnonzero(state == code), Verdict.UNDECODABLE, reasons[code])

    def decoded(self, columns: pa.StructArray, schema_id: pa.Array, missing_schema_ids: frozenset[int]) -> Decoded:
        return Decoded(
            columns=columns,
            schema_id=schema_id,
            verdict=self.verdict,
            reason=self.reason,
            reasons=tuple(self._index_of),
            missing_schema_ids=missing_schema_ids,
        )
