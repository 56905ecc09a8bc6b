"""What is to be done for one partition of a ``__latest`` table, told from plain values: pure.

What the steps are for: docs/latest_by_key.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from engine.offset_range import OffsetRange
from engine.table.latest.keyed_rows import StreamFile
from engine.table.latest.named_files import PartitionNames


class Step(Enum):
    """What is done next."""

    NOTHING = auto()
    CATCH_UP = auto()
    """The index gets what the table has."""
    ADVANCE = auto()
    """New records, or the files as they are now."""
    BUILD = auto()
    """The index gets everything, then each row is looked up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """``folded``: below it the index knows all records, None where it knows nothing; ``line_end`` of the table's line,
    None without a line; ``stream_end`` of the ledger's line; ``files`` of the topic's table, rising; ``named`` as the
    table names them."""

    folded: int | None
    line_end: int | None
    stream_end: int
    files: tuple[StreamFile, ...]
    named: PartitionNames


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    """``fold`` the offsets that are read; ``forgets``: what the index has is no good."""

    step: Step
    fold: OffsetRange
    forgets: bool = False

    @property
    def until(self) -> int:
        return self.fold.end


def plan_partition(state: PartitionState, *, fold_rows: int, build_factor: int) -> PartitionPlan:
    """The next step. What the index and the line say of each other decides."""
    folded, end = state.folded or 0, state.stream_end
    line_end = state.line_end if state.line_end is not None and state.line_end <= end else None
    if folded > end:
        return PartitionPlan(step=Step.BUILD, fold=OffsetRange(start=0, end=end), forgets=True)
    if line_end is None or folded > line_end:
        return PartitionPlan(step=Step.BUILD, fold=OffsetRange(start=folded, end=end))
    if folded < line_end:
        return PartitionPlan(step=Step.CATCH_UP, fold=OffsetRange(start=folded, end=line_end))
    coming = rows_in(state.files, OffsetRange(start=folded, end=end))
    if coming > build_factor * fold_rows and coming > rows_in(state.files, OffsetRange(start=0, end=folded)):
        return PartitionPlan(step=Step.BUILD, fold=OffsetRange(start=folded, end=end))
    until = advance_end(state.files, OffsetRange(start=folded, end=end), fold_rows)
    is_quiet = until == folded and not files_differ(state.files, state.named)
    return PartitionPlan(step=Step.NOTHING if is_quiet else Step.ADVANCE, fold=OffsetRange(start=folded, end=until))


def rows_in(files: Sequence[StreamFile], wanted: OffsetRange) -> int:
    """Rows of the files that reach into a range: no fewer than there are in it."""
    return sum(file.record_count for file in files if file.range.overlaps(wanted))


def units(files: Sequence[StreamFile], wanted: OffsetRange) -> Iterator[tuple[OffsetRange, tuple[StreamFile, ...]]]:
    """Files that reach into a range, put together where they overlap, each unit with the offsets that it settles.

    A unit's records are all that have its offsets; rows of another program's files lie in no order, so no less will do.
    """
    reaching = [file for file in files if file.range.overlaps(wanted)]
    at = wanted.start
    while reaching:
        end = reaching[0].range.end
        size = 1
        while size < len(reaching) and reaching[size].range.start < end:
            end = max(end, reaching[size].range.end)
            size += 1
        unit, reaching = tuple(reaching[:size]), reaching[size:]
        settled = min(end, wanted.end) if reaching else wanted.end
        yield OffsetRange(start=at, end=settled), unit
        at = settled


def advance_end(files: Sequence[StreamFile], coming: OffsetRange, most_rows: int) -> int:
    """How far a commit goes: no further than the unit that fills it."""
    rows = 0
    for settled, unit in units(files, coming):
        rows += sum(file.record_count for file in unit)
        if rows >= most_rows:
            return settled.end
    return coming.end


def files_differ(files: Sequence[StreamFile], named: PartitionNames) -> bool:
    """Whether the table names a file that the topic's has no more. One that is new and not named holds nothing that is
    visible, or takes the place of some that are named."""
    return not named.data.keys() <= {file.path for file in files} or bool(named.others)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlan:
    """``remade`` files of the topic's table whose visible rows are to be told again; ``sources`` files that are named
    and go, in which those of new files are found."""

    remade: tuple[StreamFile, ...]
    sources: tuple[StreamFile, ...]


def plan_files(
    files: Sequence[StreamFile], named: PartitionNames, fold: OffsetRange, superseded: NDArray[np.int64]
) -> FilePlan:
    """Which files change when ``fold`` is taken in and the rows at ``superseded`` offsets (rising) go."""
    paths = {file.path for file in files}
    sources = [one.stream for path, one in named.data.items() if path not in paths and one.stream is not None]

    def changes(file: StreamFile) -> bool:
        if file.range.overlaps(fold):
            return True
        if file.path in named.data:
            first, end = np.searchsorted(superseded, (file.range.start, file.range.end))
            return bool(end > first)
        return any(source.range.overlaps(file.range) for source in sources)

    return FilePlan(remade=tuple(file for file in files if changes(file)), sources=tuple(sources))


def visible(
    offsets: NDArray[np.int64],
    before: NDArray[np.bool_],
    fold: OffsetRange,
    superseded: NDArray[np.int64],
    shown: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Which rows of a file are visible once ``fold`` is taken in: of those that were (``before``) what nothing
    supersedes, and what is ``shown`` of the new ones."""
    old = before & (offsets < fold.start) & ~np.isin(offsets, superseded)
    found: NDArray[np.bool_] = old | np.isin(offsets, shown)
    return found
