"""Which files are merged into one, and why each of the others is not: pure (docs/compaction.md).

A group is a run of one partition's files that are adjacent in offsets. Ranges without a record have no file, so files
are neighbours when no file stands between them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, takewhile

from compaction.merge_limits import Demand, MergeLimits
from compaction.size_tree import NOTHING, SizeTree
from engine.offset_range import OffsetRange
from engine.table.manifests import TableFile, by_partition


class MergeReason(StrEnum):
    """Why files are merged."""

    FULL = "together they make a whole file"
    GROWN = "together they are many times their largest"
    QUIET = "nothing was added to the partition for a while, and they are many"
    CROWDED = "they are too many, large and small by turns"
    ASKED = "somebody asked for it"
    CLUSTERED = "it is large, and its rows are in stream order where the topic asks for windows"


class LeftReason(StrEnum):
    """Why a file is left as it is."""

    LARGE = "it is large enough"
    ADOPTED = "another program wrote it"
    HELD = "it can't be merged for now"
    NEWEST = "it is among the newest of its partition"
    ALONE = "no file that could be merged is beside it"
    WAITS = "it waits for more files beside it"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeGroup:
    """Files that become one, in the order of their offsets; a single one where its rows are put in another order."""

    files: tuple[TableFile, ...]
    reason: MergeReason

    @property
    def partition(self) -> int:
        return self.files[0].partition

    @property
    def range(self) -> OffsetRange:
        return OffsetRange(start=self.files[0].range.start, end=self.files[-1].range.end)

    @property
    def size_bytes(self) -> int:
        """Of the files as they are: what becomes of them is about as large, or smaller."""
        return sum(file.size_bytes for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """A file and those around it that are no larger: ``files`` of ``size_bytes`` together, which are merged once they
    meet one of ``demands``."""

    files: int
    size_bytes: int
    demands: tuple[Demand, ...]

    def __str__(self) -> str:
        enough = " or ".join(f"{demand.files} files of {demand.growth} times its size" for demand in self.demands)
        return f"{self.files} files no larger, itself among them, have {self.size_bytes:,} bytes; merged at {enough}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftFile:
    """A file that is in no group. ``waits`` is said of one that waits for others, ``problem`` of one that is held."""

    file: TableFile
    reason: LeftReason
    waits: Waits | None = None
    problem: str = ""

    def __str__(self) -> str:
        return ": ".join(filter(None, [str(self.reason), self.problem, "" if self.waits is None else str(self.waits)]))


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """``groups`` in the order to work on them: those first that spare a reader the most files for a byte written.
    Every file that was given is in one of them, or in ``left``, which is in the files' order."""

    groups: tuple[MergeGroup, ...]
    left: tuple[LeftFile, ...]


def plan_merges(
    files: Sequence[TableFile],
    limits: MergeLimits,
    *,
    quiet: Collection[int] = (),
    held: Mapping[str, str] | None = None,
    is_clustered: bool = False,
    is_asked: bool = False,
) -> MergePlan:
    """Group the ``files`` of a table, sorted, adopted ranges and all others that stand between among them.

    ``quiet``: partitions to which nothing was added for a while; ``held``: files to leave for now, by path, and why;
    ``is_clustered``: rows are to be clustered, however files are now; ``is_asked``: somebody asks for all that can be
    done, whatever it costs.
    """
    groups: list[MergeGroup] = []
    left: list[LeftFile] = []
    for partition, theirs in by_partition(files).items():
        planner = _PartitionPlanner(
            theirs,
            limits,
            held or {},
            is_clustered=is_clustered,
            is_quiet=partition in quiet,
            is_asked=is_asked,
        )
        planner.run()
        groups += planner.groups
        left += planner.left
    groups.sort(key=lambda group: group.size_bytes / len(group.files))
    return MergePlan(groups=tuple(groups), left=tuple(left))


class _PartitionPlanner:
    def __init__(
        self,
        files: Sequence[TableFile],
        limits: MergeLimits,
        held: Mapping[str, str],
        *,
        is_clustered: bool,
        is_quiet: bool,
        is_asked: bool,
    ) -> None:
        self._is_clustered = is_clustered
        self._files = files
        self._limits = limits
        self._held = held
        newest = files[-limits.newest_left :]
        growth = limits.growth(min(file.size_bytes for file in newest))
        self._demands = [(MergeReason.GROWN, Demand(growth=growth, files=2))]
        if is_quiet:
            self._demands.append((MergeReason.QUIET, limits.quiet))
        if is_asked:
            self._demands.append((MergeReason.ASKED, limits.asked))
        self._offered = (*(demand for _, demand in self._demands), limits.crowded)
        self._newest = frozenset() if is_quiet or is_asked else frozenset(file.path for file in newest)
        self.groups: list[MergeGroup] = []
        self.left: list[LeftFile] = []

    def run(self) -> None:
        """Runs of files between which none stands that has to stay as it is."""
        run: list[TableFile] = []
        for file in self._files:
            left = self._left_alone(file)
            if left is None:
                run.append(file)
                continue
            self._plan(run)
            if left.reason is LeftReason.LARGE and self._is_clustered and file.clustering_checksum is None:
                # Large ones are merged no more: without this, what tiering wrote whole would never have its windows.
                self.groups.append(MergeGroup(files=(file,), reason=MergeReason.CLUSTERED))
            else:
                self.left.append(left)
            run = []
        self._plan(run)

    def _left_alone(self, file: TableFile) -> LeftFile | None:
        if file.parts:
            return LeftFile(file=file, reason=LeftReason.ADOPTED)
        if file.path in self._held:
            return LeftFile(file=file, reason=LeftReason.HELD, problem=self._held[file.path])
        if self._limits.is_large(file.size_bytes):
            return LeftFile(file=file, reason=LeftReason.LARGE)
        if file.path in self._newest:
            return LeftFile(file=file, reason=LeftReason.NEWEST)
        return None

    def _plan(self, run: Sequence[TableFile]) -> None:
        """The largest spans that are worth it become groups."""
        if not run:
            return
        sizes = [file.size_bytes for file in run]
        tree = SizeTree.of(sizes)
        reasons = self._reasons(tree, sizes)
        done = 0
        for node in _outermost(tree, reasons):
            self._leave(run, tree, range(done, tree.start[node]))
            done = tree.end[node]
            self._take(run[tree.start[node] : done], reasons[node])
        self._leave(run, tree, range(done, len(run)))

    def _reasons(self, tree: SizeTree, sizes: Sequence[int]) -> dict[int, MergeReason]:
        """Spans worth a merge, by their nodes. One that is only crowded is so where nothing inside is worth one."""
        found: dict[int, MergeReason] = {}
        has_inside = [False] * len(sizes)
        for node in reversed(tree.order):
            files, total, largest = tree.files(node), tree.total[node], sizes[node]
            if files == 1:
                continue
            reason = self._reason(files, total, largest)
            inside = any(has_inside[child] for child in (tree.left[node], tree.right[node]) if child != NOTHING)
            if reason is None and not inside and self._limits.crowded.is_met(files, total, largest):
                reason = MergeReason.CROWDED
            if reason is not None:
                found[node] = reason
            has_inside[node] = inside or reason is not None
        return found

    def _reason(self, files: int, total: int, largest: int) -> MergeReason | None:
        if total >= self._limits.full_bytes and self._limits.full.is_met(files, total, largest):
            return MergeReason.FULL
        for reason, demand in self._demands:
            if demand.is_met(files, total, largest):
                return reason
        return None

    def _take(self, files: Sequence[TableFile], reason: MergeReason) -> None:
        """One group; of more files than one may have, each piece is looked at on its own, and begins again with its
        largest file where it is worth no merge."""
        if len(self._piece(files)) == len(files):
            self.groups.append(MergeGroup(files=tuple(files), reason=reason))
            return
        start = 0
        while start < len(files):
            piece = self._piece(files[start:])
            sizes = [file.size_bytes for file in piece]
            largest = sizes.index(max(sizes))
            is_worth_it = self._reason(len(piece), sum(sizes), sizes[largest]) is not None
            count = len(piece) if is_worth_it else max(1, largest)
            self._plan(piece[:count])
            start += count

    def _piece(self, files: Sequence[TableFile]) -> Sequence[TableFile]:
        """As many of the first files as one group may have."""
        most = files[: self._limits.files_per_group]
        sizes = accumulate(file.size_bytes for file in most)
        count = sum(1 for _ in takewhile(lambda size: size <= self._limits.target_file_bytes, sizes))
        return most[: max(1, count)]

    def _leave(self, run: Sequence[TableFile], tree: SizeTree, indexes: range) -> None:
        for index in indexes:
            if len(run) == 1:
                self.left.append(LeftFile(file=run[index], reason=LeftReason.ALONE))
                continue
            waits = Waits(files=tree.files(index), size_bytes=tree.total[index], demands=self._offered)
            self.left.append(LeftFile(file=run[index], reason=LeftReason.WAITS, waits=waits))


def _outermost(tree: SizeTree, nodes: Collection[int]) -> list[int]:
    """Those of ``nodes`` that are in no other's span, in the order of their spans."""
    found: list[int] = []
    waiting = [tree.order[0]]
    while waiting:
        node = waiting.pop()
        if node in nodes:
            found.append(node)
        elif node != NOTHING:
            waiting += (tree.right[node], tree.left[node])
    return sorted(found, key=tree.start.__getitem__)
