"""A tiered log over a real table, with a broker that says what it is told to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlparse

import numpy as np

from engine.clock import SystemClock
from engine.offset_range import OffsetRange
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from engine.table.commit.range_append import RangeAppend
from engine.table.commit.writer import TableWriter
from engine.table.ledger import Outcome
from engine.table.proof.verification import verify_file
from engine.table.proof.verifier import Verifier
from engine.table.topic_table import TopicTable
from serving.log.auxiliary_state import AuxiliaryState
from serving.log.auxiliary_store import AuxiliaryStore
from serving.log.copy_requests import CopyRequests
from serving.log.tiered_log import TieredLog
from tests.engine.table.table_examples import StillClock, ensure_table, open_writer, write_file
from tests.serving.log.backend_suite import END, sample_records
from tests.serving.log.kept_log import TOPIC_ID

CUTS = (0, 1000, 1250, 3000, END)
"""Where one data file ends and the next begins; one cut lies in the gap."""
STATE = AuxiliaryState(leader_epochs=b"0\n1\n3 0\n", producer_snapshot=b"snapshot")


@dataclass
class SeenTiering:
    log_starts: dict[tuple[str, int], int] = field(default_factory=dict)
    hurries: int = 0

    def log_start(self, topic_id: str, partition: int) -> int | None:
        return self.log_starts.get((topic_id, partition))

    def hurry(self) -> None:
        self.hurries += 1


class OneTable:
    def __init__(self, writer: TableWriter) -> None:
        self.writer = writer
        self.loads = 0

    def load(self, topic_id: str) -> TopicTable | None:
        self.loads += 1
        return self.writer.open("orders", topic_id) if topic_id == TOPIC_ID else None


@dataclass
class Stage:
    folder: Path
    writer: TableWriter
    tables: OneTable
    tiering: SeenTiering
    reader: LogReader
    log: TieredLog
    copies: CopyRequests
    clock: StillClock

    def table(self) -> TopicTable:
        table = self.writer.open("orders", TOPIC_ID)
        assert table is not None
        return table

    def store(self, start: int, end: int) -> None:
        records = sample_records()
        begin, upto = np.searchsorted(records.offset, [start, end])
        table, covered = self.table(), OffsetRange(start=start, end=end)
        written = write_file(table.facts, records.slice(int(begin), int(upto)), covered=covered, epoch=4)
        append = RangeAppend(
            partition=0,
            range=covered,
            leader_epoch=4,
            digest=written.digest,
            file=Verifier().accept(written, verify_file(written.path, table.facts)),
        )
        assert self.writer.commit(table, [append]).results[0].outcome is Outcome.COMMITTED

    def store_all(self) -> None:
        for start, end in pairwise(CUTS):
            self.store(start, end)

    def data_files(self) -> list[Path]:
        return sorted(Path(urlparse(self.table().location).path).rglob("*.parquet"))


@contextmanager
def empty_stage(folder: Path) -> Iterator[Stage]:
    writer = open_writer(folder)
    ensure_table(writer, topic_id=TOPIC_ID)
    tables, tiering, clock = OneTable(writer), SeenTiering(), StillClock()
    index = FileIndex()
    reader = LogReader(file_index=index)
    copies = CopyRequests(SystemClock())
    log = TieredLog(
        tables=tables,
        reader=reader,
        verifier=Verifier(),
        tiering=tiering,
        store=AuxiliaryStore(),
        copies=copies,
        clock=clock,
    )
    yield Stage(
        folder=folder,
        writer=writer,
        tables=tables,
        tiering=tiering,
        reader=reader,
        log=log,
        copies=copies,
        clock=clock,
    )
    reader.close()
