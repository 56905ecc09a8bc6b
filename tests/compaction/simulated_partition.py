"""A partition of which only the sizes of the files are real: what the planner does to it over months, in seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from compaction.merge_limits import MergeLimits
from compaction.planner import MergeGroup, plan_merges
from engine.offset_range import OffsetRange
from engine.table.manifests import TableFile

FILE_OVERHEAD_BYTES = 3_000
"""Footer, page headers and page index of a file with twenty orders: what many small files have more than few large
ones."""

MONTH_SECONDS = 30 * 24 * 3600


@dataclass(slots=True)
class SimulatedPartition:
    """``done`` files that are too large ever to be merged and stand before all others: no plan needs to see them."""

    limits: MergeLimits = field(default_factory=MergeLimits)
    overhead_bytes: int = FILE_OVERHEAD_BYTES
    files: list[TableFile] = field(default_factory=list)
    done: int = 0
    done_bytes: int = 0
    appended_bytes: int = 0
    merged_bytes: int = 0
    merges: int = 0
    most_small: int = 0
    _payload: dict[str, int] = field(default_factory=dict)
    _end: int = 0

    @property
    def write_amplification(self) -> float:
        return (self.appended_bytes + self.merged_bytes) / self.appended_bytes

    @property
    def small(self) -> int:
        """Live files that are not large."""
        return sum(not self.limits.is_large(file.size_bytes) for file in self.files)

    def append(self, payload_bytes: int) -> None:
        file = self._file(OffsetRange(start=self._end, end=self._end + 1), payload_bytes)
        self._end += 1
        self.files.append(file)
        self.appended_bytes += file.size_bytes

    def compact(self, *, is_quiet: bool = False, is_asked: bool = False) -> int:
        """One turn; how many groups there were."""
        self.most_small = max(self.most_small, self.small)
        plan = plan_merges(self.files, self.limits, quiet={0} if is_quiet else (), is_asked=is_asked)
        for group in plan.groups:
            self._merge(group)
        self._leave_done()
        return len(plan.groups)

    def _merge(self, group: MergeGroup) -> None:
        payload = sum(self._payload.pop(file.path) for file in group.files)
        merged = self._file(group.range, payload)
        first = self.files.index(group.files[0])
        assert tuple(self.files[first : first + len(group.files)]) == group.files
        self.files[first : first + len(group.files)] = [merged]
        self.merged_bytes += merged.size_bytes
        self.merges += 1

    def _leave_done(self) -> None:
        large = 0
        while large < len(self.files) and self.limits.is_large(self.files[large].size_bytes):
            del self._payload[self.files[large].path]
            self.done_bytes += self.files[large].size_bytes
            large += 1
        self.done += large
        del self.files[:large]

    def _file(self, covered: OffsetRange, payload_bytes: int) -> TableFile:
        path = f"{covered.start}-{covered.end}"
        self._payload[path] = payload_bytes
        return TableFile(
            partition=0,
            range=covered,
            path=path,
            size_bytes=payload_bytes + self.overhead_bytes,
            record_count=1,
            leader_epoch=0,
        )


def live_for(
    partition: SimulatedPartition,
    slices: Iterable[tuple[int, int]],
    *,
    slices_a_turn: int = 10,
    quiet_seconds: int = 24 * 3600,
    on_turn: Callable[[], None] = lambda: None,
) -> None:
    """Appends ``slices`` (second, payload bytes) with a turn after each few, and one where the partition was quiet."""
    last = 0
    for index, (second, payload_bytes) in enumerate(slices):
        if second - last > quiet_seconds:
            while partition.compact(is_quiet=True):
                pass
        last = second
        partition.append(payload_bytes)
        if index % slices_a_turn == slices_a_turn - 1:
            partition.compact()
            on_turn()
