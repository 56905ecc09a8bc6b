"""The bounds of merging, each with its reason (docs/compaction.md has the figures that they were chosen by)."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a run of files must be to be worth a merge: ``files`` at least, and bytes for ``growth`` times its largest.

    A byte's file then grows that much with each time that the byte is written.
    """

    growth: int
    files: int

    def is_met(self, files: int, total_bytes: int, largest_bytes: int) -> bool:
        return files >= self.files and total_bytes >= self.growth * largest_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeLimits:
    """How files are put together."""

    target_file_bytes: int = 256 << 20
    """What a merged file has at most, by the sizes of what goes into it."""

    files_per_group: int = 1000
    """Files merged into one: their footers are in memory together, and a group that fails is done again whole."""

    newest_left: int = 4
    """A partition's newest files are left as they are: what comes next will be as large as they are."""

    least_growth: int = 8
    most_growth: int = 128
    """The bounds of what the square root of target and slice gives: a byte is to be written twice more, while no
    partition keeps more than this many files of a size."""

    quiet: Demand = Demand(growth=8, files=32)
    """Of a partition to which nothing was added for a while: its last files are not left in their hundreds."""

    crowded: Demand = Demand(growth=2, files=256)
    """Where large and small files take turns, so that none of the largest is outweighed: a bound on their number."""

    asked: Demand = Demand(growth=2, files=2)
    """When somebody asks for it: any merge by which no byte's file grows less than double."""

    full: Demand = Demand(growth=2, files=2)
    """For files that together make a whole one."""

    groups_per_turn: int = 16
    """Merged in one commit, up to the target's bytes together: a turn is to end soon."""

    quiet_ms: int = 24 * 3600 * 1000
    """A partition is quiet when nothing was added to it for so long. Less, and what comes once a day would be written
    once more than what comes all the time."""

    look_interval_ms: int = 30_000
    """How often a table that changes is looked at: a look costs as much as it has files."""

    retry_ms: int = 300_000
    """How long files are left alone that could not be merged."""

    @property
    def full_bytes(self) -> int:
        """What counts as a whole file: three quarters of the target."""
        return self.target_file_bytes * 3 // 4

    def is_large(self, size_bytes: int) -> bool:
        """A file that no merge within the target could double."""
        return size_bytes * 2 > self.target_file_bytes

    def growth(self, slice_bytes: int) -> int:
        """How much larger a merge makes the files of a partition to which files of ``slice_bytes`` are added: the
        target is reached in two steps of this size."""
        return min(self.most_growth, max(self.least_growth, isqrt(self.target_file_bytes // max(1, slice_bytes))))
