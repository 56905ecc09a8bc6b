"""The merges of one topic's table: its files looked at, groups planned, some of them made one file each.

Nothing is kept but in memory: after a start, a partition counts as quiet only once it has been watched for that long.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import islice

import structlog

from compaction.merge_limits import MergeLimits
from compaction.planner import MergeGroup, MergePlan, plan_merges
from compaction.replacing import FileReplacer, Replaced
from engine.clock import Clock
from engine.errors import Corrupt, FloebergError, Unavailable
from engine.table.ledger import Outcome
from engine.table.manifests import ManifestReader, TableFile, adopted_ranges, by_partition
from engine.table.merge.merge_files import MergeTask
from engine.table.topic_table import TopicTable
from topics.topic_schemas import TopicSchemas

_log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class MergeTurn:
    """What one turn found and did, filled as it goes.

    ``tried`` groups, ``merged`` those of them that are one file now, ``gone`` those that somebody else changed
    meanwhile, ``failed`` the others, with their errors in ``problems``; ``files`` that were replaced, ``read_bytes`` of
    theirs and ``written_bytes`` of the new ones; ``gained`` records that have more columns now; ``left`` groups that
    are still to be merged, with the files and bytes in them; ``conflicts`` commits of others that came first.
    """

    tried: int = 0
    merged: int = 0
    gone: int = 0
    failed: int = 0
    problems: tuple[FloebergError, ...] = ()
    files: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    gained: int = 0
    left: int = 0
    left_files: int = 0
    left_bytes: int = 0
    appended_bytes: int = 0
    conflicts: int = 0
    cpu_ms: int = 0

    @property
    def goes_on(self) -> bool:
        """Whether a next turn has something to do at once: what is damaged is left out by it, what is away is not there
        yet."""
        return self.merged > 0 or any(isinstance(problem, Corrupt) for problem in self.problems)


@dataclass(slots=True)
class _Held:
    """Files that are not tried again before ``until_ms`` (monotonic), and why."""

    error: FloebergError
    until_ms: int


@dataclass(slots=True)
class _Newest:
    """A partition's last file, and since when (monotonic) it is that."""

    path: str
    since_ms: int


@dataclass(slots=True)
class _Seen:
    """Which files were in the table at the last look. What is new since, and not ours, was appended."""

    paths: set[str] | None = None
    made: set[str] = field(default_factory=set)

    def appended_bytes(self, files: Collection[TableFile]) -> int:
        paths = {file.path for file in files}
        before, made = self.paths, self.made
        self.paths, self.made = paths, set()
        if before is None:
            return 0
        return sum(file.size_bytes for file in files if file.path not in before and file.path not in made)


class TopicMerge:
    """One topic's, for one thread. ``table`` is the newest state of the topic's table that it knows."""

    def __init__(
        self,
        table: TopicTable,
        schemas: TopicSchemas,
        *,
        replacer: FileReplacer,
        clock: Clock,
        limits: MergeLimits,
        is_asked: bool = False,
    ) -> None:
        """``is_asked``: by somebody who wants all that can be done, whatever it costs."""
        self.table = table
        self._schemas = schemas
        self._replacer = replacer
        self._clock = clock
        self._limits = limits
        self._is_asked = is_asked
        self._manifests = ManifestReader()
        self._held: dict[str, _Held] = {}
        self._deleted_from: set[str] = set()
        self._newest: dict[int, _Newest] = {}
        self._seen = _Seen()

    @property
    def due_ms(self) -> int | None:
        """When (monotonic) there may be something to do in the table as it was last seen; None where never."""
        quiet = [newest.since_ms + self._limits.quiet_ms for newest in self._newest.values()]
        now_ms = self._clock.monotonic_ms()
        later = [*(held.until_ms for held in self._held.values()), *(at_ms for at_ms in quiet if at_ms > now_ms)]
        return min(later, default=None)

    @property
    def problems(self) -> tuple[FloebergError, ...]:
        """Why files are held that nobody else changed, each once."""
        return tuple({str(held.error): held.error for held in self._held.values()}.values())

    def reopen(self) -> None:
        """Read the table again: others commit to it. Raises Unavailable, Corrupt, Invalid."""
        self.table = self._replacer.writer.newest(self.table)

    def plan(self, partitions: Collection[int] | None = None) -> MergePlan:
        """What is to be merged in ``partitions`` (all without). Raises Corrupt (a manifest), Unavailable."""
        return self._plan(self._look(), partitions)

    def turn(self, partitions: Collection[int] | None = None) -> MergeTurn:
        """Look, plan, merge some groups, commit. Raises Unavailable, Corrupt, CommitUnknown of the table."""
        files = self._look()
        turn = MergeTurn(appended_bytes=self._seen.appended_bytes(files))
        groups = self._plan(files, partitions).groups
        chosen = self._chosen(groups)
        for group in groups[len(chosen) :]:
            turn.left += 1
            turn.left_files += len(group.files)
            turn.left_bytes += group.size_bytes
        if chosen:
            self._merge(chosen, turn)
        return turn

    def _look(self) -> tuple[TableFile, ...]:
        listed = self._manifests.files(self.table)
        now_ms = self._clock.monotonic_ms()
        whole = {file.path for file in listed.whole_own()}
        present = {file.path for file in listed.own}
        self._held = {path: held for path, held in self._held.items() if path in present and held.until_ms > now_ms}
        self._deleted_from = present - whole
        return tuple(sorted((*listed.own, *adopted_ranges(self.table, listed))))

    def _plan(self, files: Collection[TableFile], partitions: Collection[int] | None) -> MergePlan:
        if self.table.foreign is not None:
            return MergePlan(groups=(), left=())
        wanted = [file for file in files if partitions is None or file.partition in partitions]
        held = {path: str(held.error) for path, held in self._held.items()}
        held |= dict.fromkeys(self._deleted_from, "rows were deleted from it")
        clustering = self._schemas.clustering
        return plan_merges(
            wanted,
            self._limits,
            quiet=self._quiet(wanted),
            held=held,
            is_clustered=clustering is not None and clustering.within(self.table.facts.schema) is not None,
            is_asked=self._is_asked,
        )

    def _quiet(self, files: Collection[TableFile]) -> frozenset[int]:
        now_ms = self._clock.monotonic_ms()
        before, self._newest = self._newest, {}
        for partition, theirs in by_partition(files).items():
            newest = before.get(partition)
            if newest is None or newest.path != theirs[-1].path:
                newest = _Newest(theirs[-1].path, now_ms)
            self._newest[partition] = newest
        return frozenset(
            partition for partition, newest in self._newest.items() if now_ms - newest.since_ms >= self._limits.quiet_ms
        )

    def _chosen(self, groups: tuple[MergeGroup, ...]) -> tuple[MergeGroup, ...]:
        """The first ones, as many as a turn may have: one at least."""
        size_bytes, count = 0, 0
        for group in islice(groups, self._limits.groups_per_turn):
            size_bytes += group.size_bytes
            if count and size_bytes > self._limits.target_file_bytes:
                break
            count += 1
        return groups[:count]

    def _merge(self, groups: tuple[MergeGroup, ...], turn: MergeTurn) -> None:
        facts = self._schemas.facts(self.table, may_infer=False)
        attempts = {self._clock.new_id(): group for group in groups}
        tasks = {
            attempt: MergeTask(table=facts, files=group.files, attempt=attempt, clustering=self._schemas.clustering)
            for attempt, group in attempts.items()
        }
        turn.tried = len(groups)
        found = self._replacer.replace(self.table, tasks)
        self.table, turn.cpu_ms, turn.conflicts = found.table, found.cpu_ms, found.conflicts
        turn.left += found.put_off
        for attempt, error in found.failed.items():
            self._fail(attempts[attempt], error, turn)
        for attempt, replaced in found.done.items():
            self._note(attempts[attempt], replaced, turn)

    def _note(self, group: MergeGroup, replaced: Replaced, turn: MergeTurn) -> None:
        if replaced.outcome is Outcome.GONE:
            turn.gone += 1
            changed = Unavailable("somebody else changed the files", topic=self.table.topic, partition=group.partition)
            self._hold(group.files, changed)
            return
        merged = replaced.merged
        written_bytes = sum(new.size_bytes for new in merged.new)
        turn.merged += 1
        turn.files += len(group.files)
        turn.read_bytes += merged.read_bytes
        turn.written_bytes += written_bytes
        turn.gained += merged.gained
        self._seen.made.update(new.path for new in merged.new)
        _log.info(
            "merged",
            topic=self.table.topic,
            partition=group.partition,
            start=group.range.start,
            end=group.range.end,
            reason=group.reason.name.lower(),
            files=len(group.files),
            size_bytes=written_bytes,
            file=merged.new[0].path,
        )
        if merged.lost:
            _log.warning("merge_would_lose", topic=self.table.topic, file=merged.new[0].path, records=merged.lost)

    def _fail(self, group: MergeGroup, error: FloebergError, turn: MergeTurn) -> None:
        """Leave the file that the error names for a while, or all of the group where it names none of them."""
        turn.failed += 1
        turn.problems += (error,)
        named = [file for file in group.files if file.path == error.file]
        self._hold(named or group.files, error)
        _log.warning(
            "merge_failed",
            topic=self.table.topic,
            partition=group.partition,
            start=group.range.start,
            end=group.range.end,
            error=str(error),
        )

    def _hold(self, files: Collection[TableFile], error: FloebergError) -> None:
        until_ms = self._clock.monotonic_ms() + self._limits.retry_ms
        # Another dict, not this one changed: other threads ask for the problems.
        self._held = {**self._held, **{file.path: _Held(error, until_ms) for file in files}}
