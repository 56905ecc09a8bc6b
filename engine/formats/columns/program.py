"""What the arena and the binding need of a program, whichever format it runs, and how it is put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.formats.codec import Placement
from engine.formats.columns import operations as op
from engine.kernels.memory import SLACK


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where one column, or one part of it, is found.

    ``step`` is the operation that holds its values or offsets, -1 for a struct; ``union`` the operation of the union
    around it, -1 for none; ``valid`` the operation that owns its validity bytes, -1 where only its parent can be null;
    ``children`` follow the table's order, None for what the schema lacks.
    """

    type: pa.DataType
    path: str
    step: int
    union: int
    valid: int
    children: tuple[Layout | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnProgram:
    """``rows`` int64[m, k], one an operation, whose first columns are those of ``column_operations``. Per operation:
    the ``paths`` for messages, ``whys`` of those without a column, the ``level`` it lies on, the ``width`` in bytes of
    an entry's values (0: none), whether it has its own validity bytes or string data, and the enum it writes, of
    ``symbols``. ``nesting`` is how deep values lie in each other; ``pool`` the texts that a byte may unfold to, each of
    which begins at its ``pool_start``; ``layouts`` are the table's columns, None for those the schema lacks.
    """

    rows: NDArray[np.int64]
    paths: tuple[str, ...]
    whys: Mapping[int, str]
    level: NDArray[np.int64]
    width: NDArray[np.int64]
    has_valid: NDArray[np.bool_]
    has_data: NDArray[np.bool_]
    level_count: int
    nesting: int
    has_maps: bool
    symbols: Mapping[int, Any]
    pool: NDArray[np.uint8]
    pool_start: NDArray[np.int32]
    layouts: tuple[Layout | None, ...]


class ColumnCompiler:
    """A program's operations as they are added, and what ``ColumnProgram`` says of each; ``whys`` are of those without
    a column. ``depth`` is how many values the operations to come lie in, ``deepest`` what it has been at most.
    """

    def __init__(self, placement: Placement, row_width: int) -> None:
        self.placement = placement
        self._row_width = row_width
        self.rows: list[list[int]] = []
        self.paths: list[str] = []
        self.whys: dict[int, str] = {}
        self.level: list[int] = []
        self.width: list[int] = []
        self.has_valid: list[bool] = []
        self.has_data: list[bool] = []
        self.level_count = 1
        self.depth = 0
        self.deepest = 0
        self.has_maps = False
        self.symbols: dict[int, Any] = {}
        self.pool: list[bytes] = []

    def add(self, operation: int, path: str, level: int, *, width: int = 0, valid: int = -1, data: bool = False) -> int:
        """A new row; ``valid`` -1 for no validity bytes, its own step for own ones, another's to share them."""
        step = len(self.rows)
        row = [0] * self._row_width
        row[op.OPERATION], row[op.VALID], row[op.SLOT] = operation, valid, step
        self.rows.append(row)
        self.paths.append(path)
        self.level.append(level)
        self.width.append(width)
        self.has_valid.append(valid == step)
        self.has_data.append(data)
        return step

    def enter(self) -> None:
        """The operations to come lie one value deeper, until ``depth`` is set back."""
        self.depth += 1
        self.deepest = max(self.deepest, self.depth)

    def program_fields(self, layouts: Iterable[Layout | None]) -> dict[str, Any]:
        """What a ``ColumnProgram`` of the operations so far is made with; a format's own adds to it."""
        lengths = np.array([0, *map(len, self.pool)], np.int64)
        return {
            "rows": np.array(self.rows, np.int64),
            "paths": tuple(self.paths),
            "whys": self.whys,
            "level": np.array(self.level, np.int64),
            "width": np.array(self.width, np.int64),
            "has_valid": np.array(self.has_valid, np.bool_),
            "has_data": np.array(self.has_data, np.bool_),
            "level_count": self.level_count,
            "nesting": self.deepest,
            "has_maps": self.has_maps,
            "symbols": self.symbols,
            "pool": np.frombuffer(b"".join(self.pool) + bytes(SLACK), np.uint8),
            "pool_start": np.cumsum(lengths).astype(np.int32),
            "layouts": tuple(layouts),
        }
