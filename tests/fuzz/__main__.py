"""``python -m tests.fuzz --seconds 60 --seed 1``: hostile values at every format, a table of what was thrown."""

from __future__ import annotations

import argparse
import random
import resource
import time

from rich.console import Console
from rich.table import Table

from tests.fuzz.codec_fuzz import Tally, attack, targets

MEMORY_BYTES = 8 << 30
"""Address space for all of it: a decoder that believes a length of 2 GiB per value ends here."""


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    arguments.add_argument("--seconds", type=float, default=60, help="CPU time for all formats together")
    arguments.add_argument("--seed", type=int, default=1)
    asked = arguments.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    shown = Table("format", "values", "MB", "exact", "keep_raw", "undecodable")
    under_attack = targets()
    for target in under_attack:
        tally, chance = Tally(), random.Random(f"{asked.seed} {target.name}")
        end = time.process_time() + asked.seconds / len(under_attack)
        while time.process_time() < end:
            attack(target, chance, tally)
        verdicts = [f"{tally.verdicts.get(name, 0):,}" for name in ("exact", "keep_raw", "undecodable")]
        shown.add_row(target.name, f"{tally.values:,}", f"{tally.size_bytes / 1e6:,.1f}", *verdicts)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    Console().print(shown, f"nothing crashed, every neighbour came back; {peak_mib:,} MiB of memory at most")


if __name__ == "__main__":
    main()
