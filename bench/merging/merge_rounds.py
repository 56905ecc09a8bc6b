"""Files of a partition become one, are verified and committed: a program (``python -m bench.merging.merge_rounds``).

Round ``n`` merges partition ``n``, and answers with its CPU-seconds, and the most memory the process has held.
"""

from __future__ import annotations

import argparse
import resource
from pathlib import Path

from bench.cpu import measured
from bench.merging.small_files import TOPIC, TOPIC_ID, writer_in
from bench.round_program import answer_rounds
from engine.clock import SystemClock
from engine.table.commit.replacement import FileReplacement
from engine.table.commit.writer import TableWriter
from engine.table.ledger import Outcome
from engine.table.manifests import ManifestReader
from engine.table.merge.merge_files import MergeTask, merge_files
from engine.table.proof.verifier import VerifiedFile, Verifier
from floeberg.daemon.freed_memory import keep_freed_memory
from workers.workers import ReadBackTask, proof_of, read_back


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    folder = parser.parse_args().folder
    keep_freed_memory()  # as Spark's workers do
    writer = writer_in(folder)
    answer_rounds(lambda number: _round(writer, number))


def _round(writer: TableWriter, partition: int) -> dict[str, float]:
    with measured() as spent:
        table = writer.open(TOPIC, TOPIC_ID)
        assert table is not None, "the table was made before"
        files = tuple(file for file in ManifestReader().files(table).own if file.partition == partition)
        merged = merge_files(MergeTask(table=table.facts, files=files, attempt=SystemClock().new_id()))
        task = ReadBackTask(table=table.facts, file=merged.new[0])
        proof = proof_of(Verifier(), task, read_back(task))
        assert isinstance(proof, VerifiedFile), proof
        done = writer.replace(table, [FileReplacement(old=files, digest=merged.digest, new=(proof,))], merged.settings)
    assert done.outcomes == (Outcome.COMMITTED,), "nobody else replaces them"
    return {
        "cpu_seconds": spent.cpu_seconds,
        "wall_seconds": spent.wall_seconds,
        "peak_bytes": float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10),
        "file_bytes": float(merged.new[0].size_bytes),
    }


if __name__ == "__main__":
    main()
