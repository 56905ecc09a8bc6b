"""What is truly in a file that another program wrote: evidence, gathered where the file is.

Runs in a worker as ``verify_file`` does and knows nothing of what the file should hold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import Corrupt, FloebergError
from engine.records.digest_runs import DigestRuns, runs_of
from engine.table.adopted_range import ForeignFile
from engine.table.foreign.rows import open_foreign
from engine.table.rows.rows import RowCodecs, records_from_rows
from engine.table.topic_table import TableFacts

MOST_RUNS = 16_000_000
"""Of one file: half a GiB of evidence. A file of more rows that lie in no order at all can't be judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTask:
    """Read ``file`` and say what its rows are; ``cuts`` are offsets (rising) that no run may reach over."""

    table: TableFacts
    file: ForeignFile
    cuts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignEvidence:
    """``runs`` of the rows' records, rising. Plain and picklable: it proves nothing until it was compared."""

    file: ForeignFile
    runs: DigestRuns


def gather_evidence(task: ForeignTask) -> ForeignEvidence:
    """Raises Corrupt: the file is missing or damaged, has rows of another partition, or rows that give no record."""
    facts, part = task.table, task.file
    codecs = RowCodecs.of(facts)
    cuts = np.array(task.cuts, np.int64)
    found: list[DigestRuns] = []
    run_count = 0
    with open_foreign(facts.warehouse, part, facts.schema, facts.layout) as opened:
        for group in range(opened.group_count):
            for batch in opened.batches(group):
                if batch.num_rows == 0:
                    continue
                _check_partition(batch, task)
                order = pc.sort_indices(batch.column(facts.layout.offset))
                try:
                    records = records_from_rows(facts.layout, pa.Table.from_batches([batch.take(order)]), codecs)
                except FloebergError as error:
                    raise _corrupt(task, f"its rows don't give records back: {error.problem}") from error
                found.append(runs_of(records, cuts))
                run_count += len(found[-1])
                if run_count > MOST_RUNS:
                    raise _corrupt(task, f"its rows lie in no order, in more than {MOST_RUNS} runs")
    proven = replace(part, crc32c=facts.warehouse.crc32c(part.path))
    return ForeignEvidence(file=proven, runs=DigestRuns.joined(found))


def _check_partition(batch: pa.RecordBatch, task: ForeignTask) -> None:
    column = batch.column(task.table.layout.partition)
    bounds = pc.min_max(column).as_py()
    if column.null_count or bounds["min"] != bounds["max"] or bounds["min"] != task.file.partition:
        raise _corrupt(task, f"it has rows of partition {bounds['min']}, where those of {task.file.partition} belong")


def _corrupt(task: ForeignTask, problem: str) -> Corrupt:
    return Corrupt(problem, topic=task.table.topic, partition=task.file.partition, file=task.file.path)
