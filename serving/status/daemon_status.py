"""What a daemon has to say about itself at one moment: plain values that the page, the metrics and the CLI show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Self

from engine.errors import Invalid
from serving.status.copy_wait import copy_problems
from topics.gone_topic_status import GoneTopicStatus
from topics.loop_record import LoopState
from topics.partition_status import PartitionStatus


class Phase(StrEnum):
    """Where in its life the daemon is."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


_DERIVED = ("lag_records", "behind_records", "open_records")
"""Of a partition, shown beside what it is told by."""

OPEN_FILES = "open_files"
"""The bound on this process's file handles, by name."""

NEARLY_ALL = 0.97
"""Of the file handles: what is left is no longer enough to read files and to take connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundUse:
    """How much of a bound is in use, both in the unit that the name ends in."""

    name: str
    used: int
    limit: int

    @property
    def share(self) -> float:
        return self.used / self.limit if self.limit else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaSourceStatus:
    """A schema registry. ``away_ms`` since it stopped answering and the ``problem`` with it, None while it answers;
    ``questions`` it was asked and ``failures`` among them since the start."""

    name: str
    away_ms: int | None = None
    problem: str | None = None
    questions: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionStatus:
    """Files put together. ``backlog_…``: planned and not done yet; since the start: ``merges`` that were committed, the
    ``files`` that they replaced, ``written_bytes`` of the new ones and ``appended_bytes`` of those that tiering wrote
    meanwhile; groups ``given_up`` because somebody else changed their files, ``failures``, ``conflicts`` with other
    commits, and the time of the CPU. ``last_run_ms`` since the epoch; ``problems`` that there are now, ``held`` of
    which nobody needs to do anything about.
    """

    backlog_groups: int = 0
    backlog_files: int = 0
    backlog_bytes: int = 0
    last_run_ms: int | None = None
    merges: int = 0
    files: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    appended_bytes: int = 0
    write_amplification: float | None = None
    given_up: int = 0
    failures: int = 0
    conflicts: int = 0
    cpu_ms: int = 0
    problems: tuple[str, ...] = ()
    held: tuple[str, ...] = ()


FILE_REASONS = ("live", "history", "erased", "grace", "unreferenced", "foreign")
"""Why a file is in a table's folders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSweepStatus:
    """The files of one topic's table, as of the last whole look at its folders. ``files`` and ``bytes`` by reason
    (``FILE_REASONS``); ``removed_…`` since the start; ``last_ms`` when that look ended and
    ``goes_next_ms`` when the next grace ends, since the epoch; ``silent_ms`` since the last look, or since the table is
    looked at here. ``waiting``: why files whose grace is over are still there, with how many; ``held`` why nothing is
    looked at; ``problem`` that needs somebody, ``put_off`` one that goes by itself.
    """

    topic: str
    table: str
    files: Mapping[str, int] = field(default_factory=dict)
    bytes: Mapping[str, int] = field(default_factory=dict)
    removed_files: int = 0
    removed_bytes: int = 0
    last_ms: int | None = None
    silent_ms: int = 0
    goes_next_ms: int | None = None
    waiting: Mapping[str, int] = field(default_factory=dict)
    held: str | None = None
    problem: str | None = None
    put_off: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestStatus:
    """The ``tables`` that show the newest record of each key: ``behind_offsets`` that they don't know of yet, as of the
    last look at each; since the start ``commits``, ``rows`` that were taken in, and partitions that were ``builds``,
    made whole. ``last_commit_ms`` since the epoch; ``problems`` why some don't get on."""

    tables: int = 0
    behind_offsets: int = 0
    commits: int = 0
    rows: int = 0
    builds: int = 0
    last_commit_ms: int | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogStatus:
    """Closed segments that wait for the tables: of those since there were some, how many are ``done`` and how many are
    ``left``, with the bytes of the log in each. ``bytes_per_second`` and ``left_ms`` None until something was done."""

    done_segments: int
    left_segments: int
    done_bytes: int
    left_bytes: int
    elapsed_ms: int
    bytes_per_second: int | None = None
    left_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonStatus:
    """The whole daemon. Times are milliseconds since the epoch; ``memory_bytes`` by process (daemon, spark).

    ``uptime_ms`` and ``silent_ms`` (since a cycle ended, or since the start) have truly passed, whatever the clock of
    the machine did meanwhile. ``problem_kinds`` belong to ``problems``, in their order.
    ``backlog`` None while no more than one closed segment waits.
    ``damages``: files and ranges that readers met damaged or missing, the newest of ``damage_count`` that are not whole
    again.
    """

    version: str
    phase: Phase
    started_ms: int
    now_ms: int
    uptime_ms: int = 0
    silent_ms: int = 0
    cluster_id: str | None = None
    last_cycle_ms: int | None = None
    last_commit_ms: int | None = None
    cycle_count: int = 0
    commit_count: int = 0
    partitions: tuple[PartitionStatus, ...] = ()
    backlog: BacklogStatus | None = None
    problems: tuple[str, ...] = ()
    problem_kinds: tuple[str, ...] = ()
    damages: tuple[str, ...] = ()
    damage_count: int = 0
    bounds: tuple[BoundUse, ...] = ()
    schema_sources: tuple[SchemaSourceStatus, ...] = ()
    compaction: CompactionStatus = CompactionStatus()
    horizon_problems: tuple[str, ...] = ()
    sweeps: tuple[TableSweepStatus, ...] = ()
    gone_topics: tuple[GoneTopicStatus, ...] = ()
    latest: LatestStatus = LatestStatus()
    loops: tuple[LoopState, ...] = ()
    memory_bytes: Mapping[str, int] = field(default_factory=dict)

    @property
    def lack_of_handles(self) -> str | None:
        """That the process has run out of file handles, or is about to."""
        for bound in self.bounds:
            if bound.name == OPEN_FILES and bound.share >= NEARLY_ALL:
                return f"{bound.used} of {bound.limit} file handles are in use: raise LimitNOFILE (ulimit -n)"
        return None

    @property
    def all_problems(self) -> tuple[str, ...]:
        """The daemon's own, and those with which it still does its work: damage that readers, compaction, a horizon or
        a sweep met, a ``__latest`` table that doesn't get on, schema registries, a broker that asks for no copies."""
        sources = (source.problem for source in self.schema_sources if source.problem is not None)
        asked = copy_problems(self.partitions)
        swept = (sweep.problem for sweep in self.sweeps if sweep.problem is not None)
        kept = (*self.compaction.problems, *self.horizon_problems, *self.latest.problems, *swept)
        return (*self.problems, *self.all_damages, *kept, *sources, *asked)

    @property
    def all_damages(self) -> tuple[str, ...]:
        """``damages``, and a line for those that are only counted."""
        more = self.damage_count - len(self.damages)
        rest = (f"{more:,} more files or ranges are damaged. Next: floeberg fsck names them",) if more > 0 else ()
        return (*self.damages, *rest)

    @property
    def is_healthy(self) -> bool:
        """No problem anywhere and no bound exceeded."""
        return not (
            self.all_problems
            or any(partition.problem for partition in self.partitions)
            or any(partition.at_risk_bytes for partition in self.partitions)
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        plain = asdict(self)
        plain["phase"] = str(self.phase)
        plain["memory_bytes"] = dict(self.memory_bytes)
        plain["healthy"] = self.is_healthy
        for partition, values in zip(self.partitions, plain["partitions"], strict=True):
            values |= {name: getattr(partition, name) for name in _DERIVED}
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """The inverse of ``to_dict``. Raises Invalid for anything else."""
        derived = {"healthy", *_DERIVED}
        try:
            values = {key: value for key, value in plain.items() if key not in derived}
            values["phase"] = Phase(values["phase"])
            values["partitions"] = tuple(
                PartitionStatus(**{key: value for key, value in partition.items() if key not in derived})
                for partition in values["partitions"]
            )
            values["backlog"] = None if values["backlog"] is None else BacklogStatus(**values["backlog"])
            values["problems"] = tuple(values["problems"])
            values["problem_kinds"] = tuple(values["problem_kinds"])
            values["damages"] = tuple(values["damages"])
            values["horizon_problems"] = tuple(values["horizon_problems"])
            values["bounds"] = tuple(BoundUse(**bound) for bound in values["bounds"])
            compaction = {**values["compaction"]}
            for name in ("problems", "held"):
                compaction[name] = tuple(compaction[name])
            values["compaction"] = CompactionStatus(**compaction)
            values["sweeps"] = tuple(TableSweepStatus(**sweep) for sweep in values["sweeps"])
            values["gone_topics"] = tuple(GoneTopicStatus(**gone) for gone in values["gone_topics"])
            values["latest"] = LatestStatus(**{**values["latest"], "problems": tuple(values["latest"]["problems"])})
            values["loops"] = tuple(LoopState(**loop) for loop in values["loops"])
            values["schema_sources"] = tuple(SchemaSourceStatus(**source) for source in values["schema_sources"])
            return cls(**values)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Invalid(
                f"This is not the status of a Floeberg daemon: {error!r}",
                next_step="see whether daemon and command are of the same version",
            ) from error
