"""Kills a daemon at every point that a small history reaches, and audits what its successor leaves.

    python -m tests.crash.killed_daemons FOLDER [every]

Once at each point that the second act reaches, the last of the times that it does, and at each of the last act, one in
the middle; or ``every`` time in every act. A daemon is a process of its own, forked from one that has paid for the
imports and started no thread. One line of JSON a daemon: first, for each ``act``, one that nobody kills, with all that
it ``reached``; then for each kill ``act``, ``point``, ``nth`` and whether it was ``killed``; and for all of them what
``audited`` returns at the end, and in how many ``files`` the first partition's records are then.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import shutil
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from engine.fault_points import FaultPoint, KillAt, arm
from floeberg.processes.tied_process import end_with_parent
from tests.crash.small_history import (
    ACTS,
    BrokersPart,
    audited,
    do_the_daemons_work,
    first_files,
    let_kafka_delete,
)

SECOND_ACT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The world right before the daemon comes for the ``act``-th time, kept in ``template``."""

    act: int
    part: BrokersPart
    template: Path
    reached: dict[str, int]


def main(folder: Path, *, every: bool) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    answer = folder / "answer.json"
    for scene in undisturbed_scenes(folder, answer):
        for point, count in scene.reached.items():
            once = {SECOND_ACT: [count], ACTS: [(count + 1) // 2]}.get(scene.act, [])
            for nth in range(1, count + 1) if every else once:
                kill(scene, point, nth, answer)


def undisturbed_scenes(folder: Path, answer: Path) -> list[Scene]:
    """The whole history with nobody killed."""
    scenes: list[Scene] = []
    part = BrokersPart.begin(folder / "world")
    for act in range(1, ACTS + 1):
        part.act(act)
        template = folder / f"before-{act}"
        shutil.copytree(part.root, template)
        assert in_a_process(partial(undisturbed, part, answer)) == 0
        found = json.loads(answer.read_text())
        # What a daemon imports on its way, for all that follow.
        for module in found.pop("modules"):
            importlib.import_module(module)
        print(json.dumps({"act": act, **found}), flush=True)
        scenes.append(Scene(act=act, part=deepcopy(part), template=template, reached=found["reached"]))
    return scenes


def kill(scene: Scene, point: str, nth: int, answer: Path) -> None:
    root = scene.part.root
    start_again(scene.template, root)
    killed = in_a_process(partial(killed_at, root, f"{point}#{nth}")) != 0
    let_kafka_delete(root)
    assert in_a_process(partial(followed, scene.part, answer)) == 0, f"the daemon behind {point}#{nth} failed"
    found = json.loads(answer.read_text())
    print(json.dumps({"act": scene.act, "point": point, "nth": nth, "killed": killed, **found}), flush=True)


def start_again(template: Path, root: Path) -> None:
    """In the same place: a catalog names its files by whole paths."""
    shutil.rmtree(root)
    shutil.copytree(template, root)


def in_a_process(work: Callable[[], None]) -> int:
    """Runs ``work`` in a fork; its wait status."""
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        end_with_parent(parent)
        status = 1
        try:
            work()
            status = 0
        except BaseException:  # noqa: BLE001 - the process ends here, and says why
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitpid(pid, 0)[1]


def undisturbed(part: BrokersPart, answer: Path) -> None:
    before = set(sys.modules)
    reached: Counter[FaultPoint] = Counter()
    arm(lambda point: reached.update([point]))
    do_the_daemons_work(part.root, merges=True)
    found: dict[str, Any] = {"reached": reached, **audited(part), "files": first_files(part)}
    own = ("engine", "tiering", "serving", "floeberg", "pyiceberg", "pyarrow", "aiokafka", "fastavro", "sqlalchemy")
    found["modules"] = sorted(name for name in sys.modules.keys() - before if name.split(".")[0] in own)
    answer.write_text(json.dumps(found))


def killed_at(root: Path, order: str) -> None:
    arm(KillAt(order))
    do_the_daemons_work(root, merges=True)


def followed(part: BrokersPart, answer: Path) -> None:
    do_the_daemons_work(part.root, merges=True)
    answer.write_text(json.dumps({**audited(part), "files": first_files(part)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), every=sys.argv[2:] == ["every"])
