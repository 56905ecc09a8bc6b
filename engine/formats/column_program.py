"""What the arena and the binding need of a program, whichever format it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.formats.avro_program import Layout

# A record's issue has its operation's row beside it: code | row << ISSUE_BITS.
ISSUE_BITS = 8


class ColumnProgram(Protocol):
    """``rows`` int64[m, k], one an operation, whose first columns are those of ``avro_operations``. Per operation: the
    ``level`` it lies on, the ``width`` in bytes of an entry's values (0: none), whether it has its own validity bytes
    or string data, and the enum it writes. ``pool_start`` where the texts begin that a byte may unfold to; ``layouts``
    are the table's columns, None for those the schema lacks.
    """

    @property
    def rows(self) -> NDArray[np.int64]: ...
    @property
    def level(self) -> NDArray[np.int64]: ...
    @property
    def width(self) -> NDArray[np.int64]: ...
    @property
    def has_valid(self) -> NDArray[np.bool_]: ...
    @property
    def has_data(self) -> NDArray[np.bool_]: ...
    @property
    def level_count(self) -> int: ...
    @property
    def pool_start(self) -> NDArray[np.int32]: ...
    @property
    def symbols(self) -> Mapping[int, Any]: ...
    @property
    def layouts(self) -> tuple[Layout | None, ...]: ...
