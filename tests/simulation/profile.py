"""What kind of run a seed gives: the size of the cluster, the topics, and which things may happen at all."""

from __future__ import annotations

import random
from dataclasses import dataclass

from compaction.merge_limits import Demand, MergeLimits
from tests.simulation.cluster import TopicPlan
from tests.simulation.trace import Step

WEIGHTS: dict[str, int] = {
    # Producers
    "produce": 16,
    "produce-idempotent": 4,
    "produce-transaction": 10,
    "end-transaction": 12,
    # Brokers
    "replicate": 8,
    "roll": 10,
    "elect": 6,
    "broker-stops": 2,
    "broker-returns": 4,
    "cut-off": 3,
    "rejoin": 4,
    "retention": 9,
    "clean": 3,
    "delete-records": 4,
    "copy": 12,
    "local-retention": 6,
    "recreate-topic": 2,
    # Daemons
    "cycle": 26,
    "kill": 8,
    "pause": 8,
    "compact": 12,
    "horizons": 8,
    "sweep": 8,
    "latest": 8,
    "erase": 6,
    "restart": 2,
    "kill-copying": 3,
    "record-log-start": 2,
    "rogue-commit": 8,
    # The world around them
    "time": 6,
    "catalog-lies": 8,
    "catalog-away": 2,
    "late-arrival": 3,
    "store-fails": 3,
    "store-heals": 4,
    "flip-byte": 3,
    "bad-memory": 3,
    "broker-away": 2,
    "clock-jump": 2,
    "lose-spool": 1,
    "old-index": 2,
    "foreign-delete": 3,
    "replaced-files-go": 6,
    "read": 5,
    "audit": 5,
}
"""How often each kind of step is drawn where it may happen at all."""

ALWAYS = frozenset(
    {"produce", "roll", "replicate", "cycle", "copy", "time", "audit", "rejoin", "broker-returns", "end-transaction"}
)
RARE = frozenset({"foreign-delete", "lose-spool"})

_MOST_DEPTH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """``allowed``: kinds of steps of this run; leaving some out lets others go further (swarm testing).
    ``favoured``: those among them that are interrupted more often.
    ``table_bytes``: what the tables keep of a partition, None for all; ``latest_by_key``: which topics' newest records
    are shown by a table of their own, None where the broker compacts; ``latest_rows`` that a commit of one takes in;
    ``keeps_history``: snapshots of before stay."""

    roll_bytes: tuple[int, ...]
    topics: tuple[TopicPlan, ...]
    value_formats: tuple[str, ...]
    table_bytes: tuple[int | None, ...]
    latest_by_key: tuple[bool | None, ...]
    latest_rows: int
    keeps_history: bool
    freshness_ms: int | None
    max_tasks_per_cycle: int
    spool_max_bytes: int
    merge_limits: MergeLimits
    twins: bool
    allowed: frozenset[str]
    favoured: frozenset[str]
    step_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Focus:
    """What runs are made of where one kind of bug is looked for: steps that come more often, kinds of topics, and
    whether two daemons work beside each broker."""

    steps: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    twins: bool = False


EVERYTHING = Focus()
_FOCUSED_WEIGHT = 4


def draw_profile(dice: random.Random, focus: Focus = EVERYTHING) -> Profile:
    nodes = dice.choice((1, 1, 2, 2, 3))
    kinds = focus.topics or ("watch", "watch", "native", "native", "compact")
    topics = tuple(_draw_topic(dice, nodes, dice.choice(kinds)) for _ in range(dice.choice((1, 1, 2))))
    allowed = {kind for kind in WEIGHTS if kind in ALWAYS or dice.random() < (0.25 if kind in RARE else 0.6)}
    allowed.update(focus.steps)
    return Profile(
        roll_bytes=tuple(dice.choice((300, 700, 1500, 4000)) for _ in range(nodes)),
        topics=topics,
        value_formats=tuple(dice.choice(("string", "raw")) for _ in topics),
        table_bytes=tuple(dice.choice((None, 1, 1, 20_000)) for _ in topics),
        latest_by_key=tuple(dice.choice((None, None, True)) for _ in topics),
        latest_rows=dice.choice((1, 6, 1_000_000)),
        keeps_history=dice.random() < 0.3,
        freshness_ms=dice.choice((None, None, 0, 5_000, 5_000)),
        max_tasks_per_cycle=dice.choice((1, 3, 16)),
        spool_max_bytes=dice.choice((1_000, 1 << 30, 1 << 30)),
        merge_limits=_draw_merge_limits(dice),
        twins=dice.random() < 0.2 or focus.twins,
        allowed=frozenset(allowed),
        favoured=frozenset(focus.steps),
        step_count=dice.choice((25, 40, 60)),
    )


def _draw_merge_limits(dice: random.Random) -> MergeLimits:
    """Whatever may be merged is, at the next look."""
    return MergeLimits(
        target_file_bytes=dice.choice((40_000, 1 << 28, 1 << 28)),
        files_per_group=dice.choice((2, 3, 1000)),
        newest_left=dice.choice((1, 1, 2)),
        crowded=Demand(growth=1, files=2),
        look_interval_ms=0,
        retry_ms=1_000,
    )


def _draw_topic(dice: random.Random, nodes: int, kind: str) -> TopicPlan:
    return TopicPlan(
        native=kind == "native",
        compact=kind == "compact",
        partitions=dice.choice((1, 1, 2)),
        replication=dice.randint(1, nodes),
    )


def draw_steps(dice: random.Random, profile: Profile, focus: Focus = EVERYTHING) -> tuple[Step, ...]:
    weights = {
        kind: WEIGHTS[kind] * (_FOCUSED_WEIGHT if kind in focus.steps else 1) for kind in sorted(profile.allowed)
    }
    return _draw(dice, weights, profile.step_count, profile.favoured, depth=0)


def _draw(
    dice: random.Random, weights: dict[str, int], count: int, favoured: frozenset[str], *, depth: int
) -> tuple[Step, ...]:
    """Inside of a pause, what is looked at comes more often still."""
    kinds = [kind for kind in weights if depth < _MOST_DEPTH or kind != "pause"]
    inner = {kind: weight * (_FOCUSED_WEIGHT if kind in favoured else 1) for kind, weight in weights.items()}
    drawn = dice.choices(kinds, [weights[kind] for kind in kinds], k=count)
    return tuple(
        Step(
            kind=kind,
            seed=dice.getrandbits(32),
            inner=_draw(dice, inner, dice.randint(1, 6), favoured, depth=depth + 1) if kind == "pause" else (),
        )
        for kind in drawn
    )
