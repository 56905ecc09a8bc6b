"""A small warehouse of two topics, made once and put back before each fault; and where everything in it lies.

``orders`` (Avro, two partitions) has what a table can have: several commits, offsets that Kafka deleted first, a range
that another program rewrote, what followers need of a segment. ``payments`` is its neighbour, which nothing may happen
to.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from pyiceberg.catalog import Catalog
from pyiceberg.io import load_file_io
from pyiceberg.manifest import (
    ManifestEntry,
    ManifestFile,
    read_manifest_list,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata

from engine.offset_range import OffsetRange
from engine.schemas.folder import SchemaFolder
from engine.table.catalog.access import embedded_catalog_properties, open_catalog
from engine.topic_partition import TopicIdPartition
from floeberg.demo.sample_orders import ORDER_SCHEMA, ORDER_SCHEMA_ID, sample_order_blocks
from serving.log.auxiliary_state import AuxiliaryState
from serving.log.auxiliary_store import AuxiliaryStore
from tests.support.auditor import Record
from tests.tiering.broker_on_disk import FIRST_TIMESTAMP_MS
from tests.tiering.tiering_world import TieringWorld
from tiering.tiering_limits import TieringLimits
from topics.topic_rule import TopicRule

SEGMENT = 40
LIMITS = TieringLimits(lag_interval_ms=0, leaders_interval_ms=0, config_interval_ms=0, reload_interval_ms=0)

Truth = dict[TopicIdPartition, dict[int, Record]]


class FaultWorld:
    """``restore`` gives every fault the same warehouse under the same paths."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "live"
        self._pristine = folder / "pristine"
        self.truth: Truth = {}
        self.world = TieringWorld(self.root)
        self._values = next(iter(sample_order_blocks(12 * SEGMENT, seed=1))).value.to_list()
        self._build()
        self._saved = (dict(self.world.broker._end), dict(self.world.broker._active))
        self.world.broker.save(self.root / "broker.pickle")
        self.world.catalog.close()
        self.sql("PRAGMA journal_mode=DELETE")  # all of it in the database's own file
        shutil.copytree(self.root, self._pristine)
        self.truth = {who: dict(records) for who, records in self.truth.items()}
        self._stored = {who: dict(records) for who, records in self.truth.items()}

    @property
    def rules(self) -> tuple[TopicRule, ...]:
        schemas = SchemaFolder(self.root / "schemas")
        return (
            TopicRule(pattern="orders", value_format="avro", schema_source=schemas),
            TopicRule(pattern="*", value_format="string"),
        )

    def restore(self) -> None:
        shutil.rmtree(self.root)
        shutil.copytree(self._pristine, self.root)
        self.truth = {who: dict(records) for who, records in self._stored.items()}
        broker = self.world.broker
        broker._end, broker._active = dict(self._saved[0]), dict(self._saved[1])
        for who, end in broker._end.items():
            broker.port.set_view(who, last_stable_offset=end, high_watermark=end)

    def _build(self) -> None:
        broker = self.world.broker
        schemas = self.root / "schemas"
        schemas.mkdir()
        (schemas / f"{ORDER_SCHEMA_ID}.avsc").write_text(ORDER_SCHEMA)
        self.first, self.second = broker.create_topic("orders", partitions=2)
        (self.neighbour,) = broker.create_topic("payments")
        loop = self.world.loop(rules=self.rules, limits=LIMITS)
        self.append(self.first, self.second, self.neighbour)
        assert loop.cycle().is_good
        self.append(self.first, self.second)
        assert loop.cycle().is_good
        self._another_program_rewrites_a_segment()
        self.append(self.first, self.second, self.neighbour)
        # Of the second partition's last two segments one is gone before anybody can store it.
        self.append(self.second)
        for _ in range(3):
            broker.delete_oldest_segment(self.second)
        for offset in range(2 * SEGMENT, 3 * SEGMENT):
            del self.truth[self.second][offset]
        assert loop.cycle().is_good
        table = self.world.table(self.first)
        assert table.foreign is None
        assert table.adopted
        assert table.skipped
        state = AuxiliaryState(leader_epochs=b"0\n1\n0 0\n", producer_snapshot=b"snapshot")
        AuxiliaryStore().put(table, 0, OffsetRange(start=0, end=SEGMENT), state)

    def _another_program_rewrites_a_segment(self) -> None:
        table = self.open_catalog().load_table("kafka.orders")
        wanted = f"kafka_partition == 0 and kafka_offset >= {SEGMENT} and kafka_offset < {2 * SEGMENT}"
        table.overwrite(table.scan(wanted).to_arrow(), overwrite_filter=wanted)
        table.catalog.close()

    def append(self, *partitions: TopicIdPartition) -> None:
        """One more closed segment in each."""
        broker = self.world.broker
        for partition in partitions:
            start = broker._end[partition]
            values = [self._values[(start + number) % len(self._values)] for number in range(SEGMENT)]
            if partition.topic == "payments":
                values = [b"payment %d" % (start + number) for number in range(SEGMENT)]
            broker.append_segment(partition, values)
            for offset, value in enumerate(values, start):
                key = str(offset).encode()
                record = Record(key=key, value=value, timestamp_ms=FIRST_TIMESTAMP_MS + offset)
                self.truth.setdefault(partition, {})[offset] = record

    def segments(self) -> Iterator[tuple[TopicIdPartition, OffsetRange]]:
        """What was stored before the fault, as the broker knows it."""
        for who, end in self._saved[0].items():
            for start in range(0, end, SEGMENT):
                yield who, OffsetRange(start=start, end=start + SEGMENT)

    # Where things lie, and ways to change them.

    @property
    def database(self) -> Path:
        return self.root / "data" / "catalog.db"

    @property
    def warehouse(self) -> Path:
        return self.root / "data" / "warehouse"

    def open_catalog(self) -> Catalog:
        return open_catalog(embedded_catalog_properties(self.root / "data"))

    def sql(self, statement: str, *values: object) -> list[Any]:
        with closing(sqlite3.connect(self.database)) as connection, connection:
            return connection.execute(statement, values).fetchall()

    def row(self, table: str = "orders") -> str:
        return str(self.sql("SELECT metadata_location FROM iceberg_tables WHERE table_name = ?", table)[0][0])

    def metadata_file(self, table: str = "orders") -> Path:
        return path_of(self.row(table))

    def older_metadata(self, steps: int) -> Path:
        """The metadata file that many commits before the current one."""
        current = self.metadata_file()
        number = int(current.name.split("-")[0])
        return next(current.parent.glob(f"{number - steps:05d}-*.metadata.json"))

    def metadata(self, table: str = "orders") -> TableMetadata:
        location = self.row(table)
        return FromInputFile.table_metadata(load_file_io({}, location).new_input(location))

    def manifest_list(self, table: str = "orders") -> Path:
        snapshot = self.metadata(table).current_snapshot()
        assert snapshot is not None
        return path_of(snapshot.manifest_list)

    def manifests(self, table: str = "orders") -> list[ManifestFile]:
        """Newest first, as the list has them."""
        location = str(self.manifest_list(table))
        return list(read_manifest_list(load_file_io({}, location).new_input(location)))

    def manifest_of(self, partition: int, start: int) -> ManifestFile:
        """The manifest that names the file of the segment which begins at ``start``."""
        io = load_file_io({}, str(self.root))
        name = self.file(partition, start).name
        for manifest in self.manifests():
            for entry in manifest.fetch_manifest_entry(io):
                if entry.data_file.file_path.endswith(name):
                    return manifest
        raise AssertionError(f"no manifest names {name}")

    def file(self, partition: int, start: int, table: str = "orders") -> Path:
        """Our own data file of a segment."""
        folder = path_of(self.metadata(table).location) / "data"
        (found,) = folder.rglob(f"p={partition}/{start:020d}-*.parquet")
        return found

    def adopted_file(self) -> Path:
        """The data file that another program wrote."""
        adopted = json.loads(self.metadata().properties["floeberg.adopted.0"])
        text = json.dumps(adopted)
        return next(
            path for path in (path_of(self.metadata().location) / "data").rglob("*.parquet") if path.name in text
        )

    def edit_metadata(self, change: Callable[[dict[str, Any]], None], table: str = "orders") -> None:
        path = self.metadata_file(table)
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))

    def edit_properties(self, changes: Mapping[str, str | None]) -> None:
        def change(content: dict[str, Any]) -> None:
            for name, text in changes.items():
                if text is None:
                    content["properties"].pop(name)
                else:
                    content["properties"][name] = text

        self.edit_metadata(change)

    def edit_property(self, name: str, change: Callable[[Any], Any]) -> None:
        """A property that holds JSON."""
        value = json.loads(self.metadata().properties[name])
        changed = change(value)
        self.edit_properties({name: json.dumps(value if changed is None else changed)})

    def rewrite_manifest_list(self, change: Callable[[list[ManifestFile]], list[ManifestFile]]) -> None:
        """The same list with something else in it, under its name."""
        snapshot = self.metadata().current_snapshot()
        assert snapshot is not None
        manifests = change(self.manifests())
        path = path_of(snapshot.manifest_list)
        path.unlink()
        output = load_file_io({}, str(path)).new_output(str(path))
        with write_manifest_list(
            2, output, snapshot.snapshot_id, snapshot.parent_snapshot_id, snapshot.sequence_number, "deflate"
        ) as writer:
            writer.add_manifests(manifests)

    def rewrite_manifest(
        self, manifest: ManifestFile, change: Callable[[list[ManifestEntry]], list[ManifestEntry]]
    ) -> None:
        """The same manifest with something else in it, under its name; the list gets its new length."""
        io = load_file_io({}, str(self.root))
        metadata = self.metadata()
        entries = change(manifest.fetch_manifest_entry(io))
        path = path_of(manifest.manifest_path)
        path.unlink()
        with write_manifest(
            2, metadata.spec(), metadata.schema(), io.new_output(str(path)), manifest.added_snapshot_id, "deflate"
        ) as writer:
            for entry in entries:
                writer.add_entry(entry)

        def with_length(manifests: list[ManifestFile]) -> list[ManifestFile]:
            for one in manifests:
                if one.manifest_path == manifest.manifest_path:
                    one._data[1] = path.stat().st_size
            return manifests

        self.rewrite_manifest_list(with_length)


def path_of(location: str) -> Path:
    return Path(unquote(urlparse(location).path))


def flip(path: Path, share: float, *, bit: int = 0x10) -> None:
    """One bit of the byte that lies at ``share`` of a file."""
    content = bytearray(path.read_bytes())
    content[int(share * len(content))] ^= bit
    path.write_bytes(content)


def cut(path: Path, keep: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
