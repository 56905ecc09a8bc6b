"""Kills a daemon at every point that an act reaches, and audits what its successor leaves.

    python -m tests.crash.killed_daemons FOLDER ACT [every]

Of the times that a point is reached, the last in the second act and one in the middle in the others, or ``every``
one. A daemon is a process of its own, forked from one that has paid for the imports and started no thread. One line of
JSON a kill: ``point``, ``nth``, ``killed`` and what ``audited`` returns; the first line is of a daemon that nobody
kills, with all that it ``reached``.
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
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from engine.fault_points import FaultPoint, KillAt, arm
from tests.crash.small_history import BrokersPart, audited, do_the_daemons_work, let_kafka_delete


def main(folder: Path, act: int, *, every: bool) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    root, template, answer = folder / "world", folder / "template", folder / "answer.json"
    part = BrokersPart.begin(root)
    for earlier in range(1, act):
        part.act(earlier)
        assert in_a_process(partial(do_the_daemons_work, root)) == 0
    part.act(act)
    shutil.copytree(root, template)
    assert in_a_process(partial(undisturbed, part, answer)) == 0
    first = json.loads(answer.read_text())
    # What a daemon imports on its way, for all that follow.
    for module in first.pop("modules"):
        importlib.import_module(module)
    print(json.dumps(first), flush=True)
    for point, count in first["reached"].items():
        for nth in range(1, count + 1) if every else [count if act == 2 else (count + 1) // 2]:
            shutil.rmtree(root)
            shutil.copytree(template, root)
            killed = in_a_process(partial(killed_at, root, f"{point}#{nth}")) != 0
            let_kafka_delete(root)
            assert in_a_process(partial(followed, part, answer)) == 0, f"the daemon behind {point}#{nth} failed"
            found = json.loads(answer.read_text())
            print(json.dumps({"point": point, "nth": nth, "killed": killed, **found}), flush=True)


def in_a_process(work: Callable[[], None]) -> int:
    """Runs ``work`` in a fork; its wait status."""
    pid = os.fork()
    if pid == 0:
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
    do_the_daemons_work(part.root)
    found: dict[str, Any] = {"reached": reached, **audited(part)}
    own = ("engine", "tiering", "serving", "floeberg", "pyiceberg", "pyarrow", "aiokafka", "fastavro", "sqlalchemy")
    found["modules"] = sorted(name for name in sys.modules.keys() - before if name.split(".")[0] in own)
    answer.write_text(json.dumps(found))


def killed_at(root: Path, order: str) -> None:
    arm(KillAt(order))
    do_the_daemons_work(root)


def followed(part: BrokersPart, answer: Path) -> None:
    do_the_daemons_work(part.root)
    answer.write_text(json.dumps(audited(part)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), every=sys.argv[3:] == ["every"])
