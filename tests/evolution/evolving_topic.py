"""A topic whose schema changes under it, tiered into a real table: log files, catalog, workers, verifier, commits."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
from pyiceberg.catalog import Catalog

from engine.clock import SystemClock
from engine.formats.codec import CodecSpec
from engine.fsck.check import fsck_table
from engine.offset_range import OffsetRange
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from engine.records.records import Records
from engine.table.catalog.access import embedded_catalog_properties, open_catalog
from engine.table.columns import TableLayout
from engine.table.commit.range_append import RangeAppend
from engine.table.commit.writer import TableWriter
from engine.table.ledger import Outcome
from engine.table.proof.verification import Verification
from engine.table.proof.verifier import Verifier
from engine.table.topic_table import TopicTable
from tests.tiering.broker_on_disk import BrokerOnDisk
from tiering.rewrite import RewriteTask, Rewritten, rewrite_segment
from workers.workers import InProcessWorkers, ReadBackTask, Workers, read_back

CLUSTER_ID = "evolution"
NOTHING: Mapping[str, str] = {}


class Warehouse:
    """One broker's folder and one catalog for all topics of a test."""

    def __init__(self, root: Path) -> None:
        root.mkdir(exist_ok=True)
        self.broker = BrokerOnDisk(root)
        self.catalog: Catalog = open_catalog(embedded_catalog_properties(root / "data"))

    def writer(self) -> TableWriter:
        return TableWriter(self.catalog, SystemClock())


class EvolvingTopic:
    """``add`` a schema, ``tier`` values that name it; what was tiered stays in ``values``."""

    def __init__(
        self,
        warehouse: Warehouse,
        topic: str,
        *,
        codec: str = "avro",
        options: Mapping[str, str] = NOTHING,
        key_codec: str | None = None,
        workers: Workers | None = None,
    ) -> None:
        self.warehouse = warehouse
        (self.partition,) = warehouse.broker.create_topic(topic)
        self.values: list[bytes | None] = []
        self.keys: list[bytes | None] = []
        self._writer = warehouse.writer()
        self._workers = workers or InProcessWorkers()
        self._attempt = 0
        self.table = self._writer.ensure(
            topic=topic,
            topic_id=self.partition.topic_id,
            cluster_id=CLUSTER_ID,
            layout=TableLayout(key=key_codec or "string"),
            codec=CodecSpec(name=codec, options=options),
            value_fields=(),
            key_codec=None if key_codec is None else CodecSpec(name=key_codec),
        )

    def add(self, schema_id: int, text: str) -> None:
        self.table = self._writer.add_schemas(self.table, {schema_id: text})

    def add_key(self, schema_id: int, text: str) -> None:
        self.table = self._writer.add_schemas(self.table, {schema_id: text}, of_keys=True)

    def tier(self, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None) -> None:
        """One segment and one commit."""
        first = len(self.values)
        self.values += values
        self.keys += keys or ()
        self.warehouse.broker.append_segment(self.partition, values, keys=keys)
        self._attempt += 1
        task = RewriteTask(
            table=self.table.facts,
            partition=self.partition,
            range=OffsetRange(start=first, end=len(self.values)),
            leader_epoch=0,
            segment_path=self.warehouse.broker.directory(self.partition) / f"{first:020d}.log",
            closed=True,
            aborted=(),
            attempt=f"a{self._attempt}",
        )
        ((_, rewritten),) = self._workers.run(rewrite_segment, {0: task})
        assert isinstance(rewritten, Rewritten), rewritten
        assert rewritten.file is not None
        ((_, found),) = self._workers.run(read_back, {0: ReadBackTask(table=task.table, file=rewritten.file)})
        assert isinstance(found, Verification), found
        append = RangeAppend(
            partition=0,
            range=task.range,
            leader_epoch=0,
            digest=rewritten.digest,
            file=Verifier().accept(rewritten.file, found),
        )
        result = self._writer.commit(self.table, [append], rewritten.settings)
        assert [one.outcome for one in result.results] == [Outcome.COMMITTED]
        self.table = result.table

    def reopened(self) -> TopicTable:
        """The table as a process that has just started finds it."""
        table = self.warehouse.writer().open(self.partition.topic, self.partition.topic_id)
        assert table is not None
        return table

    def read_back(self) -> list[bytes | None]:
        """All values, by offset, as a broker's consumers get them."""
        return [value for block in self._blocks() for value in block.value.to_list()]

    def read_keys_back(self) -> list[bytes | None]:
        return [key for block in self._blocks() for key in block.key.to_list()]

    def _blocks(self) -> list[Records]:
        reader = LogReader(file_index=FileIndex())
        try:
            wanted = OffsetRange(start=0, end=len(self.values))
            blocks = list(reader.records(self.reopened(), 0, wanted))
        finally:
            reader.close()
        assert [int(offset) for block in blocks for offset in block.offset] == list(range(len(self.values)))
        return blocks

    def findings(self) -> list[str]:
        """What fsck finds wrong, with the table's files and with the log beside them."""
        report = fsck_table(self.reopened(), log_dirs=[self.warehouse.broker.log_dir], parallelism=1)
        return [str(finding) for finding in report.findings]

    def rows(self) -> list[dict[str, Any]]:
        """The rows in offset order, by an engine that knows nothing of us; nulls left out at the top."""
        loaded = self.warehouse.catalog.load_table(self.reopened().identifier)
        found = loaded.scan().to_arrow().sort_by("kafka_offset").to_pylist()
        return [without_nulls(row) for row in found]


def without_nulls(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def value_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The value's own columns of a row."""
    return {name: value for name, value in row.items() if not name.startswith("kafka_")}


def avro(schema: Any, schema_id: int, value: Any) -> bytes:
    """A value as a producer with fastavro writes it."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return b"\x00" + schema_id.to_bytes(4, "big") + body.getvalue()


def framed_json(_schema: Any, schema_id: int, value: Any) -> bytes:
    """A value as Confluent's serializer of JSON writes it, with the standard library's separators."""
    return b"\x00" + schema_id.to_bytes(4, "big") + json.dumps(value).encode()
