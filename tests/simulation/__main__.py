"""``python -m tests.simulation --seeds 10000 [--from 0]``: many runs in parallel processes, and their totals.
``--seed 7``: one run with its trace. A run that fails is made as small as it goes, and printed."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from floeberg.processes.tied_process import end_with_parent
from tests.simulation.minimiser import minimise
from tests.simulation.run import Outcome, drawn, run
from tests.simulation.trace import Step, count_of

_SHOWN_FAILURES = 3
"""Failing seeds that are minimised; the others are named."""

_SEEDS_A_TASK = 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--seed", type=int, help="one seed, with its trace")
    asked = parser.parse_args()
    if asked.seed is not None:
        outcome = run(asked.seed)
        print("\n".join(outcome.trace))
        if outcome.findings:
            print(failure_report(outcome))
        else:
            print(f"seed {asked.seed}: nothing found in {outcome.seconds:.2f} s")
        return int(bool(outcome.findings))
    return _many(range(asked.first, asked.first + asked.seeds), asked.jobs)


def _many(seeds: range, jobs: int) -> int:
    began = time.monotonic()
    totals: Counter[str] = Counter()
    failed: dict[int, tuple[str, ...]] = {}
    parts = [seeds[at : at + _SEEDS_A_TASK] for at in range(0, len(seeds), _SEEDS_A_TASK)]
    with ProcessPoolExecutor(jobs, initializer=end_with_parent, initargs=(os.getpid(),)) as pool:
        for counts, found in pool.map(_run_part, parts):
            totals.update(counts)
            for seed, findings in found.items():
                failed[seed] = findings
                print(f"seed {seed} failed: {findings[0].splitlines()[0]}", flush=True)
    for seed in sorted(failed)[:_SHOWN_FAILURES]:
        print(failure_report(run(seed)))
    print(totals_report(len(seeds), totals, time.monotonic() - began))
    if failed:
        print(f"{len(failed)} seeds failed: {', '.join(map(str, sorted(failed)))}")
    return int(bool(failed))


def _run_part(seeds: range) -> tuple[Counter[str], dict[int, tuple[str, ...]]]:
    counts: Counter[str] = Counter()
    failed: dict[int, tuple[str, ...]] = {}
    for seed in seeds:
        outcome = run(seed)
        counts.update(outcome.counts)
        if outcome.findings:
            failed[seed] = outcome.findings
    return counts, failed


def failure_report(outcome: Outcome) -> str:
    """The seed, what was found, and the trace of the smallest list of steps that finds as much."""
    if not outcome.findings:
        return f"seed {outcome.seed} does not fail when it is run again"

    def fails(steps: tuple[Step, ...]) -> bool:
        return bool(run(outcome.seed, steps).kinds & outcome.kinds)

    small = run(outcome.seed, minimise(outcome.steps, fails))
    profile, _ = drawn(outcome.seed)
    return "\n".join(
        [
            f"seed {outcome.seed} failed, {count_of(outcome.steps)} steps, {count_of(small.steps)} of them needed:",
            f"  {profile.topics}, {len(profile.roll_bytes)} nodes, twins {profile.twins}",
            *(f"  {line}" for line in small.trace),
            *(f"  => {finding}" for finding in small.findings),
        ]
    )


def totals_report(seeds: int, counts: Counter[str], seconds: float) -> str:
    """The figures: seeds, faults by kind, kills survived, records audited."""

    def of(prefix: str) -> dict[str, int]:
        return {key.removeprefix(prefix): count for key, count in sorted(counts.items()) if key.startswith(prefix)}

    def told(found: dict[str, int]) -> str:
        return ", ".join(f"{name} {count}" for name, count in sorted(found.items(), key=lambda item: -item[1]))

    faults, kills = of("fault "), of("kill at ")
    pauses = {name: count for name, count in faults.items() if name.startswith("pause at ")}
    others = {name: count for name, count in faults.items() if name not in pauses}
    rest = {
        name: count for name, count in counts.items() if not name.startswith(("fault ", "kill at ", "step ", "rogue "))
    }
    return "\n".join(
        [
            f"seeds run: {seeds} in {seconds:.0f} s",
            f"steps: {sum(of('step ').values())} ({told(of('step '))})",
            f"kills survived: {sum(kills.values())} ({told(kills)})",
            f"pauses: {sum(pauses.values())} ({told({name[9:]: count for name, count in pauses.items()})})",
            f"faults injected: {sum(others.values())} ({told(others)})",
            f"commits at the wrong place: {told(of('rogue '))}",
            *(f"{name}: {count}" for name, count in sorted(rest.items())),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
