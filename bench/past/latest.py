"""What ``__latest`` costs: built from a table of so many keys, and brought on by updates of them drawn at random.

One partition, records of a 17-byte key and a 40-byte text; an update in ten is a tombstone. What is measured is the
loop's turns alone, in this process: keys read, looked up, delete files written, the commit, the index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

from bench.cpu import Spent, measured
from bench.measurement import Measurement
from engine.clock import SystemClock
from engine.formats.codec import CodecSpec, propose_fields
from engine.offset_range import OffsetRange
from engine.records.records import ByteSpans, Records
from engine.table.catalog.access import embedded_catalog_properties, open_catalog
from engine.table.columns import TableLayout
from engine.table.commit.range_append import RangeAppend
from engine.table.commit.writer import TableWriter
from engine.table.data_file import FileName
from engine.table.ledger import Outcome
from engine.table.proof.verifier import VerifiedFile, Verifier
from engine.table.rows.record_file import RecordFile
from engine.table.rows.rows import RowCodecs
from engine.table.topic_table import TopicTable
from floeberg.sql.duckdb_session import extension_file
from latest.key_index import KeyIndex
from latest.latest_limits import LatestLimits
from latest.topic_latest import TopicLatest
from workers.workers import ReadBackTask, proof_of, read_back

KEY_COUNTS = (100_000, 10_000_000)
UPDATES = 1_000_000
COMMITS = 10
_FILE_RECORDS = 1_000_000
_TOMBSTONE_IN = 10
_FIRST_TIMESTAMP_MS = 1_700_000_000_000


@dataclass(slots=True)
class _Stage:
    """A topic's table that grows."""

    folder: Path
    writer: TableWriter
    table: TopicTable
    end: int = 0

    @classmethod
    def begin(cls, folder: Path) -> _Stage:
        catalog = open_catalog(embedded_catalog_properties(folder))
        writer = TableWriter(catalog, SystemClock())
        table = writer.ensure(
            topic="customers",
            topic_id="AAAAAAAAAAAAAAAAAAAAAQ",
            cluster_id="bench",
            layout=TableLayout(),
            codec=CodecSpec(name="string"),
            value_fields=propose_fields("string", "", ()).fields,
        )
        return cls(folder, writer, table)

    def append(self, keys: NDArray[np.int64], *, tombstones: bool) -> None:
        count = len(keys)
        values: list[bytes | None] = [b"%040d" % key for key in keys.tolist()]
        if tombstones:
            values[::_TOMBSTONE_IN] = [None] * len(values[::_TOMBSTONE_IN])
        offsets = np.arange(self.end, self.end + count)
        records = Records(
            offset=offsets,
            timestamp_ms=_FIRST_TIMESTAMP_MS + offsets,
            timestamp_type=np.zeros(count, np.int8),
            leader_epoch=np.zeros(count, np.int32),
            key=ByteSpans.from_list([b"customer-%08d" % key for key in keys.tolist()]),
            value=ByteSpans.from_list(values),
            headers=None,
        )
        covered = OffsetRange(start=self.end, end=self.end + count)
        name = FileName(partition=0, range=covered, leader_epoch=0, attempt=SystemClock().new_id())
        codecs = RowCodecs.of(self.table)
        file = RecordFile(self.table.facts, name, codecs)
        file.add(records, *codecs.decode(records))
        description = file.finish()
        assert description is not None, "there are records"
        task = ReadBackTask(table=self.table.facts, file=description)
        proof = proof_of(Verifier(), task, read_back(task))
        assert isinstance(proof, VerifiedFile), proof
        append = RangeAppend(partition=0, range=covered, leader_epoch=0, digest=description.digest, file=proof)
        done = self.writer.commit(self.table, [append], file.settings)
        assert [result.outcome for result in done.results] == [Outcome.COMMITTED], "nobody else writes"
        self.table, self.end = done.table, covered.end


def measure(folder: Path, *, key_counts: Sequence[int] = KEY_COUNTS, updates: int = UPDATES) -> list[Measurement]:
    """By number of keys: CPU of a build and of updates, bytes of the index, and DuckDB's count on both tables."""
    return [one for keys in key_counts for one in _of_keys(folder / str(keys), keys, updates)]


def _of_keys(folder: Path, keys: int, updates: int) -> list[Measurement]:
    draw = np.random.default_rng(keys)
    stage = _Stage.begin(folder / "data")
    all_keys = draw.permutation(keys)
    for at in range(0, keys, _FILE_RECORDS):
        stage.append(all_keys[at : at + _FILE_RECORDS], tombstones=False)
    index = KeyIndex(folder / "index")
    work = TopicLatest(stage.table, writer=stage.writer, index=index, clock=SystemClock(), limits=LatestLimits())
    with measured() as build:
        _bring_on(work)
    rounds: list[Spent] = []
    for _ in range(COMMITS):
        stage.append(draw.integers(0, keys, updates // COMMITS), tombstones=True)
        with measured() as spent:
            _bring_on(work)
        rounds.append(spent)
    index.close()
    index_bytes = sum(path.stat().st_size for path in (folder / "index").glob("*.sst"))
    counted, newest = _by_duckdb(stage)
    name, title = f"latest.{keys}_keys", f"{keys:,} keys"
    million = 1_000_000

    def figure(key: str, what: str, unit: str, *samples: float) -> Measurement:
        return Measurement(
            key=f"{name}.{key}", title=f"{what}, {title}", unit=unit, samples=samples, higher_is_better=False
        )

    return [
        figure("build", "Built whole: a million records", "CPU-s", build.cpu_seconds * million / keys),
        figure(
            "updates",
            f"A million updates, in {COMMITS} commits",
            "CPU-s",
            sum(spent.cpu_seconds for spent in rounds) * million / updates,
        ),
        figure("commit", f"A commit of {updates // COMMITS:,} updates", "s", *(one.wall_seconds for one in rounds)),
        figure("index", "Index on disk", "B a key", index_bytes / keys),
        figure("count", "DuckDB counts its rows", "CPU-ms", 1000 * counted.cpu_seconds),
        figure("row_number", "DuckDB by row_number() over the topic's table", "CPU-ms", 1000 * newest.cpu_seconds),
    ]


def _bring_on(work: TopicLatest) -> None:
    while work.turn().committed:
        pass


def _by_duckdb(stage: _Stage) -> tuple[Spent, Spent]:
    catalog = open_catalog(embedded_catalog_properties(stage.folder))
    with duckdb.connect(config={"autoinstall_known_extensions": "false", "threads": "1"}) as connection:
        for extension in ("avro", "iceberg"):
            connection.execute(f"LOAD '{extension_file(extension)}'")

        def rows(topic: str, query: str) -> tuple[Spent, int]:
            path = catalog.load_table(("kafka", topic)).metadata_location
            with measured() as spent:
                (found,) = connection.execute(query.format(f"iceberg_scan('{path}')")).fetchone() or (0,)
            return spent, int(found)

        newest = (
            "SELECT kafka_is_null, value, row_number() OVER (PARTITION BY kafka_partition, kafka_key "
            "ORDER BY kafka_offset DESC) AS nth FROM {}"
        )
        counted, shown = rows("customers__latest", "SELECT count(value) FROM {}")
        asked, expected = rows("customers", f"SELECT count(value) FROM ({newest}) WHERE nth = 1 AND NOT kafka_is_null")
    assert shown == expected, f"{shown} rows are shown, {expected} are the newest"
    return counted, asked
