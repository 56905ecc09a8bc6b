"""The records of a file's row groups, in file order, put back into offset order: their digest, what is misplaced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from engine.offset_range import OffsetRange
from engine.records.digest import EMPTY_DIGEST, RangeDigest, digest_of
from engine.records.merged_records import merged_pieces
from engine.records.records import Records


@dataclass(slots=True, kw_only=True)
class OffsetOrder:
    """``starts``: the first row group of each window, and the end (``window_starts``). Memory: one window's records and
    a piece of them.

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
        for piece in merged_pieces(self._window):
            offset = piece.offset
            first, last = int(offset[0]), int(offset[-1])
            if (at_least is not None and first < at_least) or bool((offset[1:] <= offset[:-1]).any()):
                yield f"rows are not in rising offset order between offsets {first} and {last}: row groups overlap"
                return
            at_least = last + 1
            self.offsets = OffsetRange(start=first if self.offsets is None else self.offsets.start, end=at_least)
            self.digest = self.digest.then(digest_of(piece))
        self._window.clear()
