"""Bucketed windows: rows of consecutive offsets that lie in a file sorted by some columns, a row group after another.

A window is cut into row groups in the sort order of its columns; inside a row group offsets rise. So bounds of row
groups prune as after a sort, and whoever reads by offset merges a few rising runs (docs/clustering.md).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self

import crc32c
import pyarrow as pa

from engine.errors import Invalid
from engine.parquet.row_counts import DEFAULT_WINDOW_ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class Clustering:
    """What a topic's rows are sorted by, the first column first, in windows of up to ``window_rows``."""

    columns: tuple[str, ...]
    window_rows: int = DEFAULT_WINDOW_ROWS

    def __post_init__(self) -> None:
        if not self.columns or len(set(self.columns)) < len(self.columns):
            raise Invalid(f"a table is clustered by one or more columns, each once, not by {list(self.columns)}")
        if self.window_rows < 1:
            raise Invalid(f"a window has a row at least, not {self.window_rows}")

    @property
    def checksum(self) -> int:
        """Tells files of these settings from files of others: CRC-32C of what they are."""
        return int(crc32c.crc32c(json.dumps([*self.columns, self.window_rows]).encode()))

    def check(self, schema: pa.Schema) -> None:
        """Raises Invalid where a table of these columns can't be clustered so, and says why not."""
        for problem in self.problems(schema).values():
            raise problem

    def problems(self, schema: pa.Schema) -> dict[str, Invalid]:
        """Of the columns that a table of this schema can't be clustered by: why not."""
        found: dict[str, Invalid] = {}
        for name in self.columns:
            index = schema.get_field_index(name)
            kind = None if index < 0 else schema.field(index).type
            if kind is None:
                why = f"the table can't be clustered by {name}: it has no such column"
            elif not _is_sortable(kind):
                reason = "engines disagree on the order of UUIDs" if kind == pa.uuid() else "its values have parts"
                why = f"the table can't be clustered by {name}, a column of type {kind}: {reason}"
            else:
                continue
            usable = ", ".join(known.name for known in schema if _is_sortable(known.type))
            found[name] = Invalid(why, next_step=f"name some of {usable}")
        return found

    def within(self, schema: pa.Schema) -> Clustering | None:
        """By those of the columns that a table of this schema can be clustered by; None where it is none."""
        unusable = self.problems(schema).keys()
        columns = tuple(name for name in self.columns if name not in unusable)
        return replace(self, columns=columns) if columns else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWindows:
    """What a file's footer says of its windows: ``first_groups`` the first row group of each, rising from 0."""

    clustering: Clustering
    first_groups: tuple[int, ...]

    def to_json(self) -> str:
        said = {
            "columns": list(self.clustering.columns),
            "window_rows": self.clustering.window_rows,
            "first_groups": list(self.first_groups),
        }
        return json.dumps(said)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Raises ValueError, TypeError, KeyError or Invalid for what ``to_json`` does not write."""
        said = json.loads(text)
        groups = tuple(said["first_groups"])
        if groups[:1] != (0,) or any(not isinstance(group, int) for group in groups):
            raise ValueError(f"windows begin at the row groups {groups}")
        if any(before >= after for before, after in pairwise(groups)):
            raise ValueError(f"windows begin at the row groups {groups}, which don't rise")
        clustering = Clustering(columns=tuple(said["columns"]), window_rows=int(said["window_rows"]))
        return cls(clustering=clustering, first_groups=groups)


def _is_sortable(kind: pa.DataType) -> bool:
    return not pa.types.is_nested(kind) and kind != pa.uuid()
