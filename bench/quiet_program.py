"""The loops of a daemon, without its doors, over a broker where nothing happens; a program, as the daemon is one.

``python -m bench.quiet_program``. The first round answers once the loops have come to rest, each later one with the
CPU-seconds of the process over the seconds that it took, and with the CPU of one scrape of the metrics.
"""

from __future__ import annotations

import argparse
import threading
import time
from pathlib import Path
from typing import Any

from bench.cpu import measured
from bench.round_program import answer_rounds
from compaction.compaction_loop import CompactionLoop
from engine.broker import KafkaBroker
from engine.clock import SystemClock
from engine.table.catalog.access import embedded_catalog_properties, open_catalog
from engine.table.commit.writer import TableWriter
from engine.table.proof.verifier import Verifier
from floeberg.status_board import StatusBoard
from tiering.loop import TieringLoop
from tiering.tiering_limits import TieringLimits
from topics.topic_rule import TopicRule
from workers.workers import InProcessWorkers

FRESHNESS_MS = 60_000
_AT_REST_AFTER_SECONDS = 75.0
"""Without a commit for so long: nothing waits for its freshness, and followers are no longer waited for."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--log-dir", type=Path, action="append", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    arguments = parser.parse_args()
    loops = QuietLoops(arguments)
    answer_rounds(lambda number: loops.round(arguments.seconds) if number else loops.rest())
    loops.stop()


class QuietLoops:
    """Tiering and compaction in a thread each, and the board that is told of every cycle."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        clock, limits, workers, verifier = SystemClock(), TieringLimits(), InProcessWorkers(), Verifier()
        writer = TableWriter(open_catalog(embedded_catalog_properties(arguments.folder)), clock)
        self._loop = TieringLoop(
            broker=KafkaBroker(bootstrap=arguments.bootstrap),
            log_dirs=arguments.log_dir,
            writer=writer,
            verifier=verifier,
            workers=workers,
            rules=[TopicRule(pattern="quiet-*", value_format="string", freshness_ms=FRESHNESS_MS)],
            clock=clock,
            limits=limits,
        )
        self._board = StatusBoard(version="bench", clock=clock, limits=limits)
        self._compaction = CompactionLoop(
            writer=writer, workers=workers, verifier=verifier, clock=clock, on_gain=self._board.metrics.count_repaired
        )
        self._board.watch_kept(self._compaction.kept)
        self._loop.on_cycle(self._board.note_cycle)
        self._loop.on_cycle(lambda report: self._compaction.note_topics(report.led, may_work=not report.more))
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=run, args=(self._ended,), daemon=True)
            for run in (self._loop.run_forever, self._compaction.run_forever)
        ]
        for thread in self._threads:
            thread.start()

    def rest(self) -> dict[str, Any]:
        """Wait until every topic has its table and there is nothing to do."""
        commits, since = -1, time.monotonic()
        while time.monotonic() - since < _AT_REST_AFTER_SECONDS:
            status = self._board.status()
            now = status.commit_count
            if now != commits or not all(partition.table for partition in status.partitions):
                commits, since = now, time.monotonic()
            time.sleep(5)
        return {}

    def round(self, seconds: float) -> dict[str, Any]:
        """Measure for ``seconds``."""
        report = self._loop.report
        assert report is not None, "there was a cycle"
        assert report.is_good, "the partitions must be well"
        with measured() as spent:
            time.sleep(seconds)
        before = time.thread_time()
        self._board.metrics.exposition()
        return {
            "cpu_seconds": spent.cpu_seconds,
            "wall_seconds": spent.wall_seconds,
            "scrape_ms": (time.thread_time() - before) * 1000,
            "partitions": len(report.partitions),
            "tables": sum(part.status.table is not None for part in report.partitions),
        }

    def stop(self) -> None:
        self._ended.set()
        self._loop.hurry()
        self._compaction.hurry()
        for thread in self._threads:
            thread.join(30)


if __name__ == "__main__":
    main()
