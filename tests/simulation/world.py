"""Everything of one run: cluster, catalog, object store, daemons, and what the auditor knows of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from engine import fault_points
from tests.simulation.audit import Auditor
from tests.simulation.catalog import CatalogState, SimulatedCatalog
from tests.simulation.clock import SimulatedClock, SimulatedTime
from tests.simulation.cluster import Node, SimulatedBroker, SimulatedCluster
from tests.simulation.daemon import LONG_HISTORY, SHORT_HISTORY, SimulatedDaemon
from tests.simulation.damage import Damage
from tests.simulation.faults import CatalogFaults, Interruption, Killed, Stage, StoreFaults
from tests.simulation.object_store import ObjectStore, StoreClient
from tests.simulation.partition import Partition
from tests.simulation.profile import Profile
from tests.simulation.spool_watch import SpoolWatch
from tests.simulation.table_reading import TableReading
from tests.simulation.trace import Trace
from tiering.tiering_limits import TieringLimits
from topics.retention_rule import Keep, RetentionRule
from topics.topic_rule import TopicRule, rule_of


@dataclass(slots=True, kw_only=True)
class Seat:
    """A place where a daemon runs, on one machine beside one broker; processes come and go. ``busy``: its process
    stands in the middle of something."""

    name: str
    node: Node
    catalog_faults: CatalogFaults
    store_faults: StoreFaults
    damage: Damage
    process: SimulatedDaemon | None = None
    started: int = 0
    busy: bool = False

    def data_dir(self, root: Path) -> Path:
        return root / f"data-{self.name}"


@dataclass(slots=True)
class World:
    """``chance`` of a step is the step's own; the world's dice give only ids and what topics are named. ``seats`` are
    the daemons'; at ``desk`` somebody gives commands, each a process of its own."""

    root: Path
    profile: Profile
    dice: random.Random
    trace: Trace = field(default_factory=Trace)
    counts: Counter[str] = field(default_factory=Counter)
    time: SimulatedTime = field(init=False)
    cluster: SimulatedCluster = field(init=False)
    store: ObjectStore = field(init=False)
    catalog: CatalogState = field(init=False)
    clients: dict[str, StoreClient] = field(init=False)
    auditor: Auditor = field(init=False)
    stage: Stage = field(init=False)
    seats: list[Seat] = field(init=False)
    desk: Seat = field(init=False)
    in_flight: list[Callable[[], object]] = field(default_factory=list)
    spools: SpoolWatch = field(init=False)
    produced: int = 0

    def __post_init__(self) -> None:
        self.time = SimulatedTime(self.dice)
        self.cluster = SimulatedCluster(self.root, self.time, list(self.profile.roll_bytes))
        self.store = ObjectStore()
        self.catalog = CatalogState(self.store)
        truth = SimulatedClock(self.time)
        self.clients = {"auditor": StoreClient(self.store, now_ms=truth.now_ms)}
        self.auditor = Auditor(TableReading(self.catalog, self.store, "auditor"), lambda: self.time.elapsed_ms)
        self.catalog.on_commit = self.auditor.on_commit
        self.store.on_removal = self.auditor.on_removal
        self.stage = Stage()
        self.spools = SpoolWatch()
        self.seats = [self._seat(node, name) for node in self.cluster.nodes.values() for name in self._names(node)]
        self.desk = self._seat(self.cluster.nodes[1], "desk")
        for number, plan in enumerate(self.profile.topics):
            self.cluster.create_topic(f"orders.{number}", plan)
        for seat in self.seats:
            self.start(seat)

    @property
    def places(self) -> list[Seat]:
        """Wherever a process of ours may run."""
        return [*self.seats, self.desk]

    def rule(self, partition: Partition) -> TopicRule:
        found = rule_of(partition.who.topic, self._rules())
        assert found is not None, "every topic has its rule"
        return found

    def partition(self, dice: random.Random, wanted: Callable[[Partition], bool] = lambda _: True) -> Partition | None:
        found = [partition for partition in self.cluster.live if wanted(partition)]
        return dice.choice(found) if found else None

    def seat(self, dice: random.Random, wanted: Callable[[Seat], bool] = lambda _: True) -> Seat | None:
        """A seat whose daemon is not in the middle of something; started first where there is none."""
        found = [seat for seat in self.seats if not seat.busy and wanted(seat)]
        if not found:
            return None
        seat = dice.choice(found)
        if seat.process is None:
            self.start(seat)
        return seat

    def start(self, seat: Seat) -> None:
        """A new process, with nothing in memory."""
        seat.started += 1
        endpoint = f"{seat.name}.{seat.started}"
        clock = seat.node.clock
        holder: list[SimulatedDaemon] = []

        def check() -> None:
            if holder and holder[0].is_dead:
                raise Killed

        self.clients[endpoint] = StoreClient(
            self.store, now_ms=clock.now_ms, before=_of_process(seat.store_faults, check)
        )

        def answer(operation: str, work: Callable[[], object]) -> object:
            check()
            return seat.catalog_faults.answer(operation, work)

        holder.append(
            SimulatedDaemon(
                node=seat.node,
                broker=SimulatedBroker(self.cluster, seat.node),
                clock=clock,
                catalog=SimulatedCatalog(self.catalog, endpoint, answer),
                rules=self._rules(),
                merge_limits=self.profile.merge_limits,
                limits=TieringLimits(
                    max_tasks_per_cycle=self.profile.max_tasks_per_cycle,
                    small_range_bytes=0,
                    spool_max_bytes=self.profile.spool_max_bytes,
                ),
                damage=seat.damage.hurt,
                data_dir=seat.data_dir(self.root),
                latest_rows=self.profile.latest_rows,
                history=LONG_HISTORY if self.profile.keeps_history else SHORT_HISTORY,
            )
        )
        seat.process = holder[0]

    def stop(self, seat: Seat) -> None:
        if seat.process is not None:
            seat.process.is_dead = True
            seat.process.close()
            seat.process = None

    @contextmanager
    def turn(self, seat: Seat, interruption: Interruption | None) -> Iterator[SimulatedDaemon]:
        """Something of ours runs in the seat's process; a kill ends the process and nothing else."""
        assert seat.process is not None, "a turn needs a process"
        seat.busy = True
        process = seat.process
        try:
            with self.stage.turn(interruption), self.spools.watching(self, seat):
                yield process
        except Killed:
            process.is_dead = True
            process.close()
            seat.process = None
        finally:
            seat.busy = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """The fault points of the program lead here."""
        with fault_points.armed(self.stage.reach):
            yield

    def note(self, fault: str) -> None:
        self.counts[f"fault {fault}"] += 1

    def close(self) -> None:
        for seat in self.places:
            self.stop(seat)

    def _rules(self) -> tuple[TopicRule, ...]:
        return tuple(
            TopicRule(
                pattern=f"orders.{number}",
                value_format=value_format,
                freshness_ms=self.profile.freshness_ms,
                retention=RetentionRule(table=Keep(size_bytes=kept_bytes)),
                latest_by_key=latest_by_key,
            )
            for number, (value_format, kept_bytes, latest_by_key) in enumerate(
                zip(self.profile.value_formats, self.profile.table_bytes, self.profile.latest_by_key, strict=True)
            )
        )

    def _names(self, node: Node) -> list[str]:
        """Two daemons beside one broker, where somebody made that mistake."""
        return [f"n{node.node_id}", f"n{node.node_id}b"] if self.profile.twins else [f"n{node.node_id}"]

    def _seat(self, node: Node, name: str) -> Seat:
        return Seat(
            name=name,
            node=node,
            catalog_faults=CatalogFaults(self.time, self.stage.reach, self.note, in_flight=self.in_flight),
            store_faults=StoreFaults(self.time, self.note),
            damage=Damage(self.store, self.note),
        )


def _of_process(faults: StoreFaults, check: Callable[[], None]) -> Callable[[str, str], None]:
    def before(operation: str, key: str) -> None:
        check()
        faults.before(operation, key)

    return before
