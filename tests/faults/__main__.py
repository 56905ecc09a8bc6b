"""Prints what became of every planted fault: ``python -m tests.faults``."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

import structlog

from tests.faults.fault import Fault
from tests.faults.fault_world import FaultWorld
from tests.faults.planted import FAULTS, shortcomings
from tests.faults.sights import Sights, look

_ERRORS_ONLY = 50


def main() -> int:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(_ERRORS_ONLY))
    failed = 0
    print("| region | fault | fsck | daemon and log door | segments of the table: right, refused, wrong |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        world = FaultWorld(Path(folder))
        for fault in FAULTS:
            world.restore()
            told = fault.plant(world)
            seen = look(world)
            print(_line(world, fault, seen))
            for shortcoming in shortcomings(world, fault, told, seen):
                failed += 1
                print(f"    {shortcoming}", file=sys.stderr)
    regions = ", ".join(f"{region} {count}" for region, count in Counter(fault.region for fault in FAULTS).items())
    print(f"\n{len(FAULTS)} kinds ({regions}); {failed} not met as they should be")
    return 1 if failed else 0


def _line(world: FaultWorld, fault: Fault, seen: Sights) -> str:
    findings = ", ".join(sorted({str(finding.damage) for finding in seen.findings})) or "nothing"
    kinds = sorted({problem.partition(":")[0] for problem in seen.problems["orders"]})
    segments = [who for who, _ in world.segments() if who.topic == "orders"]
    refused = sum(problem.startswith("read:") for problem in seen.problems["orders"])
    right = len(segments) - refused - len(seen.wrong)
    cells = (fault.region, fault.name, findings, ", ".join(kinds) or "-", f"{right}, {refused}, {len(seen.wrong)}")
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
