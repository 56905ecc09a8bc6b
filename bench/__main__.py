"""``python -m bench``: every benchmark in one run, the table on the terminal, the page and ``build/bench.json``."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from bench.machine import Machine, commit
from bench.plan import GROUPS, Scale, run
from bench.report import text_table, write_json, write_page
from bench.running.freshness import RATES_MIB

_ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--orders", type=int, default=4_000_000, help="orders in each topic (default: %(default)s)")
    parser.add_argument("--repetitions", type=int, default=3, help="measured repetitions (default: %(default)s)")
    parser.add_argument("--segment-mib", type=int, default=32, help="segment.bytes in MiB (default: %(default)s)")
    parser.add_argument("--fetches", type=int, default=30, help="random fetches (default: %(default)s)")
    parser.add_argument(
        "--rates",
        type=int,
        nargs="+",
        default=list(RATES_MIB),
        help="MiB/s of the group freshness (default: %(default)s)",
    )
    parser.add_argument("--only", nargs="+", choices=sorted(GROUPS), help="some benchmarks; the page is not written")
    parser.add_argument("--json", type=Path, default=_ROOT / "build" / "bench.json", help="where the figures go")
    arguments = parser.parse_args()
    scale = Scale(
        order_count=arguments.orders,
        segment_bytes=arguments.segment_mib << 20,
        repetitions=arguments.repetitions,
        fetches=arguments.fetches,
        rates_mib=tuple(arguments.rates),
    )
    with tempfile.TemporaryDirectory(prefix="floeberg-bench-") as folder:
        measurements = run(Path(folder), scale, only=arguments.only, say=lambda line: print(line, flush=True))
    print("\n" + text_table(measurements))
    write_json(arguments.json, measurements)
    if arguments.only is None:
        options = (
            f"--orders {scale.order_count} --repetitions {scale.repetitions} --segment-mib {arguments.segment_mib}"
        )
        write_page(
            _ROOT / "docs" / "BENCHMARKS.md",
            measurements,
            machine=Machine.this(),
            commit=commit(),
            command=f"python -m bench {options}",
        )


if __name__ == "__main__":
    main()
