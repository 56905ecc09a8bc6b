"""What is true of the order of a file's rows: their digest by offset, what is misplaced, and whether row groups lie in
the order that the footer says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.offset_range import OffsetRange
from engine.records.digest import EMPTY_DIGEST, RangeDigest, digest_of
from engine.records.merged_records import merged_pieces
from engine.records.records import Records
from engine.table.windows import FileWindows


@dataclass(slots=True, kw_only=True)
class OffsetOrder:
    """Puts the records of row groups, which come in file order, into offset order.

    ``starts``: the first row group of each window, and the end (``FileFooter.window_starts``). Memory: one window's
    records and a piece of them.

    ``digest`` of what came so far, whole windows only; ``offsets`` from the first record to after the last one, None
    before any.
    """

    starts: Sequence[int]
    digest: RangeDigest = EMPTY_DIGEST
    offsets: OffsetRange | None = None
    _ends: frozenset[int] = field(init=False)
    _window: list[Records] = field(default_factory=list)
    _groups_seen: int = 0

    def __post_init__(self) -> None:
        self._ends = frozenset(self.starts[1:])

    def misplaced(self, group: Records) -> Iterator[str]:
        """Take the records of the next row group, and say what is not where a reader by offset looks for it."""
        offset = group.offset
        if bool((offset[1:] <= offset[:-1]).any()):
            yield f"rows are not in rising offset order between offsets {offset.min()} and {offset.max()}"
            return
        if len(group):
            self._window.append(group)
        self._groups_seen += 1
        if self._groups_seen in self._ends and self._window:
            yield from self._close_window()

    def _close_window(self) -> Iterator[str]:
        at_least = None if self.offsets is None else self.offsets.end
        for piece in self._window if len(self._window) == 1 else merged_pieces(self._window):
            offset = piece.offset
            first, last = int(offset[0]), int(offset[-1])
            if (at_least is not None and first < at_least) or bool((offset[1:] <= offset[:-1]).any()):
                yield f"rows are not in rising offset order between offsets {first} and {last}: row groups overlap"
                return
            at_least = last + 1
            self.offsets = OffsetRange(start=first if self.offsets is None else self.offsets.start, end=at_least)
            self.digest = self.digest.then(digest_of(piece))
        self._window.clear()


@dataclass(slots=True, kw_only=True)
class SortOrder:
    """Whether the row groups of a window lie in the order of the first column that they are sorted by. Bounds are true
    whatever the order, but where it is false they skip nothing. ``windows`` of the footer, None in stream order."""

    windows: FileWindows | None
    _greatest: Any = None
    _has_nulls: bool = False

    def false_in_group(self, index: int, rows: pa.Table) -> Iterator[str]:
        """``rows`` of the next row group, ``index``."""
        if self.windows is None:
            return
        name = self.windows.clustering.columns[0]
        if name not in rows.column_names:
            yield f"the footer says that rows are sorted by {name}, and there is no such column"
            return
        if index in self.windows.first_groups:
            self._greatest, self._has_nulls = None, False
        column = rows.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_floating(column.type):
            column = pc.if_else(pc.is_nan(column), None, column)  # they come after the numbers, as nulls do
        bounds = pc.min_max(column)
        least, greatest = bounds["min"], bounds["max"]
        if least.is_valid:
            is_after = self._greatest is None or pc.greater_equal(least, self._greatest).as_py()
            if self._has_nulls or not is_after:
                yield f"row group {index} has values of {name} that belong before those of the one before"
            self._greatest = greatest
        self._has_nulls = self._has_nulls or column.null_count > 0
