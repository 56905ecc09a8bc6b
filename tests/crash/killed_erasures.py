"""Kills an erasure at every point that it reaches, and audits what is there then, and what the same command leaves.

    python -m tests.crash.killed_erasures FOLDER [every]

By key, the last of the times that it reaches a point, and by a condition, the first; or ``every`` time. Each erasure
is a process of its own, forked from one that has paid for the imports and started no thread. One line of JSON each:
first of the one that nobody kills, with the points that it ``reached`` in order; then of each kill ``by``, ``point``,
``nth`` and whether it was ``killed``, and ``is_done``: whether the table was changed.
"""

from __future__ import annotations

import json
import pickle
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from engine.fault_points import FaultPoint, KillAt, arm
from tests.crash.killed_daemons import in_a_process, start_again
from tests.engine.table.merge.merge_world import MergeWorld
from tests.retention.erasure_world import ErasureWorld, text_world

ERASED = b"alice"
WAYS: dict[str, Callable[[ErasureWorld], object]] = {
    "key": lambda world: world.erase(ERASED.decode()),
    "where": lambda world: world.erase(where=f"kafka_key = '{ERASED.decode()}'"),
}


def main(folder: Path, *, every: bool) -> None:
    root, template, answer = folder / "world", folder / "template", folder / "answer"
    in_child(partial(begin, root, answer))
    shutil.copytree(root, template)
    whole = answer.read_bytes()
    for by in WAYS:
        in_child(partial(undisturbed, root, by, answer))
        reached = json.loads(answer.read_text())
        print(json.dumps({"by": by, "reached": reached}), flush=True)
        for point, count in Counter(reached).items():
            once = [count if by == "key" else 1]
            for nth in range(1, count + 1) if every else once:
                start_again(template, root)
                killed = in_a_process(partial(killed_at, root, by, f"{point}#{nth}")) != 0
                in_child(partial(followed, root, by, whole, answer))
                found = json.loads(answer.read_text())
                print(json.dumps({"by": by, "point": point, "nth": nth, "killed": killed, **found}), flush=True)
        start_again(template, root)


def in_child(work: Callable[[], None]) -> None:
    assert in_a_process(work) == 0, "a process that nobody killed failed"


def begin(root: Path, answer: Path) -> None:
    answer.write_bytes(pickle.dumps(text_world(root, files=2).consumed()))


def undisturbed(root: Path, by: str, answer: Path) -> None:
    reached: list[FaultPoint] = []
    arm(reached.append)
    WAYS[by](world_in(root))
    answer.write_text(json.dumps(reached))


def killed_at(root: Path, by: str, order: str) -> None:
    arm(KillAt(order))
    WAYS[by](world_in(root))


def followed(root: Path, by: str, whole: bytes, answer: Path) -> None:
    """What the kill left is the table of before or of after, and given again the command ends its work."""
    world, everything = world_in(root), pickle.loads(whole)
    left = {at: record for at, record in everything.items() if record[0] != ERASED}
    is_done = bool(world.table.erased)
    assert world.consumed() == (left if is_done else everything)
    WAYS[by](world)
    assert world.consumed() == left
    assert ERASED not in {row["kafka_key"] for row in world.rows()}
    assert sum(erased.record_count for erased in world.table.erased.values()) == len(everything) - len(left)
    answer.write_text(json.dumps({"is_done": is_done}))


def world_in(root: Path) -> ErasureWorld:
    """Over a table that another process made."""
    stored = MergeWorld.__new__(MergeWorld)
    stored.folder = root
    return ErasureWorld(stored)


if __name__ == "__main__":
    main(Path(sys.argv[1]), every=sys.argv[2:] == ["every"])
