"""One run: from a seed, or from a list of steps that a seed once gave."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
import traceback
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import structlog
from pyiceberg.manifest import clear_manifest_cache

from tests.simulation import audit_steps, daemon_steps, ending, erasure_steps, kafka_steps, machine_steps
from tests.simulation.object_store import mounted
from tests.simulation.profile import EVERYTHING, Focus, Profile, draw_profile, draw_steps
from tests.simulation.trace import Step
from tests.simulation.world import World

Action = Callable[[World, random.Random], "str | None"]

ACTIONS: dict[str, Action] = {
    "produce": kafka_steps.produce,
    "produce-idempotent": kafka_steps.produce_idempotent,
    "produce-transaction": kafka_steps.produce_transaction,
    "end-transaction": kafka_steps.end_transaction,
    "replicate": kafka_steps.replicate,
    "roll": kafka_steps.roll,
    "elect": kafka_steps.elect,
    "broker-stops": kafka_steps.broker_stops,
    "broker-returns": kafka_steps.broker_returns,
    "cut-off": kafka_steps.cut_off,
    "rejoin": kafka_steps.rejoin,
    "retention": kafka_steps.retention,
    "clean": kafka_steps.clean,
    "delete-records": kafka_steps.delete_records,
    "copy": kafka_steps.copy,
    "local-retention": kafka_steps.local_retention,
    "recreate-topic": kafka_steps.recreate_topic,
    "cycle": daemon_steps.cycle,
    "kill": daemon_steps.kill,
    "compact": daemon_steps.compact,
    "horizons": daemon_steps.move_horizons,
    "sweep": daemon_steps.sweep,
    "latest": daemon_steps.bring_latest_on,
    "erase": erasure_steps.erase,
    "restart": daemon_steps.restart,
    "kill-copying": daemon_steps.kill_copying,
    "record-log-start": daemon_steps.record_log_start,
    "rogue-commit": daemon_steps.rogue_commit,
    "time": daemon_steps.pass_time,
    "catalog-lies": daemon_steps.catalog_lies,
    "catalog-away": daemon_steps.catalog_away,
    "late-arrival": daemon_steps.late_arrival,
    "store-fails": daemon_steps.store_fails,
    "store-heals": daemon_steps.store_heals,
    "flip-byte": machine_steps.flip_byte,
    "bad-memory": machine_steps.bad_memory,
    "broker-away": daemon_steps.broker_away,
    "clock-jump": machine_steps.clock_jump,
    "lose-spool": machine_steps.lose_spool,
    "old-index": machine_steps.old_index,
    "foreign-delete": audit_steps.foreign_delete,
    "replaced-files-go": audit_steps.replaced_files_go,
    "read": audit_steps.read,
    "audit": audit_steps.audit,
}

MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """``findings``: what the auditor says; none in a good run. ``counts``: what was done and looked at."""

    seed: int
    steps: tuple[Step, ...]
    findings: tuple[str, ...]
    trace: tuple[str, ...]
    counts: Counter[str]
    seconds: float

    @property
    def kinds(self) -> frozenset[str]:
        """What sorts of findings there are: a smaller run that fails otherwise is another failure."""
        return frozenset(finding.partition(":")[0] for finding in self.findings)


def drawn(seed: int, focus: Focus = EVERYTHING) -> tuple[Profile, tuple[Step, ...]]:
    """What a seed stands for."""
    dice = random.Random(seed)
    profile = draw_profile(dice, focus)
    return profile, draw_steps(dice, profile, focus)


def run(seed: int, steps: tuple[Step, ...] | None = None, *, focus: Focus = EVERYTHING) -> Outcome:
    """Play a seed's steps, or ``steps`` in the seed's world, and look at everything."""
    profile, all_steps = drawn(seed, focus)
    chosen = all_steps if steps is None else steps
    root = Path(tempfile.mkdtemp(prefix="floeberg-sim-", dir=MEMORY if MEMORY.is_dir() else None))
    began = time.perf_counter()
    # Kept by path in the process; two runs of one seed have the same paths for other contents.
    clear_manifest_cache()
    dice = random.Random(seed ^ 0x5EED)
    try:
        with _quiet(), _seeded_ids(dice), _hasty_expiry():
            world = World(root, profile, dice)
            with mounted(world.clients), world.running():
                _play(world, chosen)
            world.close()
    finally:
        shutil.rmtree(root, ignore_errors=True)
    world.counts.update(world.auditor.audited)
    world.counts["records written"] += world.produced
    return Outcome(
        seed=seed,
        steps=chosen,
        findings=tuple(world.auditor.findings),
        trace=tuple(world.trace.lines),
        counts=world.counts,
        seconds=time.perf_counter() - began,
    )


@contextmanager
def _hasty_expiry() -> Iterator[None]:
    """Every commit lets all snapshots go but the newest, as young as they are: nothing that is promised needs them."""
    with (
        mock.patch("engine.table.history.MAY_BE_UNANSWERED_MS", 0),
        mock.patch("engine.table.commit.session.EXPIRY_INTERVAL_MS", 0),
    ):
        yield


def _play(world: World, steps: tuple[Step, ...]) -> None:
    try:
        _take(world, steps)
        if not world.auditor.findings:
            ending.end_well(world)
    except Exception as error:  # noqa: BLE001 - whatever comes out of a run is a finding, with its trace
        where = traceback.format_exc(limit=-6)
        world.auditor.found("crashed", None, f"{error!r}\n{where}")


def _take(world: World, steps: tuple[Step, ...]) -> None:
    for step in steps:
        if world.auditor.findings:
            return
        dice = random.Random(step.seed)
        world.trace.depth += 1
        try:
            if step.kind == "pause":
                said = daemon_steps.pause(world, dice, lambda inner=step.inner: _take(world, inner))  # type: ignore[misc]
            else:
                said = ACTIONS[step.kind](world, dice)
        finally:
            world.trace.depth -= 1
        if said is not None:
            world.counts[f"step {step.kind}"] += 1
            world.trace.note(f"{step.kind}: {said}")


@contextmanager
def _quiet() -> Iterator[None]:
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    try:
        yield
    finally:
        structlog.configure(**before)


@contextmanager
def _seeded_ids(dice: random.Random) -> Iterator[None]:
    """pyiceberg takes ids of its own; in a run they come from the seed, too."""

    def new_id() -> uuid.UUID:
        return uuid.UUID(int=dice.getrandbits(128), version=4)

    with mock.patch("uuid.uuid4", new_id):
        yield
