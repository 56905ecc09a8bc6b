"""A broker's log directory written by the tests themselves, with a FakeBroker that agrees with it."""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np

from engine.broker import PartitionView
from engine.kafka_log.batch_writer import encode_batches
from engine.kafka_log.compression import Compression
from engine.kafka_log.log_directory import format_partition_metadata
from engine.kafka_log.record_batch import parse_header
from engine.records.records import ByteSpans, Headers, Records
from engine.topic_partition import TopicIdPartition
from tests.support.fake_broker import FakeBroker

NODE_ID = 1
_INDEX_INTERVAL_BYTES = 4096
_INDEX_BYTES = 1 << 20
FIRST_TIMESTAMP_MS = 1_700_000_000_000


class BrokerOnDisk:
    """One log directory below ``root``; appended records are stable at once unless a test sets another view."""

    def __init__(self, root: Path) -> None:
        self.log_dir = root / "kafka-logs"
        self.log_dir.mkdir(parents=True)
        self.port = FakeBroker(node_id=NODE_ID)
        (self.log_dir / "meta.properties").write_text(
            f"node.id={NODE_ID}\nversion=1\ncluster.id={self.port.cluster_id()}\n"
        )
        self._end: dict[TopicIdPartition, int] = {}
        self._active: dict[TopicIdPartition, Path] = {}
        self._index_of: dict[Path, tuple[int, int]] = {}

    def create_topic(
        self,
        topic: str,
        *,
        partitions: int = 1,
        native: bool = False,
        copy_disabled: bool = False,
        cleanup: str = "delete",
    ) -> tuple[TopicIdPartition, ...]:
        config = {
            "remote.storage.enable": str(native).lower(),
            "remote.log.copy.disable": str(copy_disabled).lower(),
            "cleanup.policy": cleanup,
        }
        topic_id = self.port.create_topic(topic, partitions=partitions, config=config)
        created = tuple(
            TopicIdPartition(topic=topic, topic_id=topic_id, partition=number) for number in range(partitions)
        )
        for partition in created:
            directory = self.directory(partition)
            directory.mkdir()
            (directory / "partition.metadata").write_text(format_partition_metadata(topic_id))
            self._end[partition] = 0
            self._open_segment(partition)
        return created

    def directory(self, partition: TopicIdPartition) -> Path:
        return self.log_dir / f"{partition.topic}-{partition.partition}"

    def append(
        self,
        partition: TopicIdPartition,
        values: Sequence[bytes | None] | ByteSpans,
        *,
        keys: Sequence[bytes | None] | None = None,
        compression: Compression = Compression.NONE,
        headers: Headers | None = None,
    ) -> None:
        """Append one record a value; its key is its offset as text where no ``keys`` are given."""
        spans = values if isinstance(values, ByteSpans) else ByteSpans.from_list(list(values))
        base, count = self._end[partition], len(spans)
        if keys is None:
            keys = [str(offset).encode() for offset in range(base, base + count)]
        records = Records(
            offset=np.arange(base, base + count),
            timestamp_ms=FIRST_TIMESTAMP_MS + np.arange(base, base + count),
            timestamp_type=np.zeros(count, np.int8),
            leader_epoch=np.zeros(count, np.int32),
            key=ByteSpans.from_list(keys),
            value=spans,
            headers=headers,
        )
        with self._active[partition].open("ab") as segment:
            for batch in encode_batches(records, compression=compression):
                self._index(segment.name, segment.tell(), parse_header(batch).last_offset)
                segment.write(batch)
        self._end[partition] = base + count
        self.port.set_view(partition, last_stable_offset=base + count, high_watermark=base + count)

    def skip(self, partition: TopicIdPartition, count: int) -> None:
        """Offsets that a test wrote itself, or that a marker takes; stable at once."""
        end = self._end[partition] = self._end[partition] + count
        self.port.set_view(partition, last_stable_offset=end, high_watermark=end)

    def roll(self, partition: TopicIdPartition) -> None:
        """Close the active segment."""
        self._open_segment(partition)

    def append_segment(
        self,
        partition: TopicIdPartition,
        values: Sequence[bytes | None],
        *,
        keys: Sequence[bytes | None] | None = None,
    ) -> None:
        self.append(partition, values, keys=keys)
        self.roll(partition)

    def delete_oldest_segment(self, partition: TopicIdPartition) -> None:
        """What the broker's retention does: rename, remove, raise the log start."""
        oldest, following = sorted(self.directory(partition).glob("*.log"))[:2]
        oldest.rename(oldest.with_name(oldest.name + ".deleted")).unlink()
        self.port.set_view(partition, log_start_offset=int(following.stem))

    def save(self, path: Path) -> None:
        """Write down what the fake broker says, for a process of its own that is to see the same."""
        path.write_bytes(pickle.dumps(self.port))

    @classmethod
    def saved(cls, root: Path, path: Path) -> Self:
        """The folder of another process with the broker it wrote down; nothing can be appended."""
        found = cls.__new__(cls)
        found.log_dir = root / "kafka-logs"
        found.port = pickle.loads(path.read_bytes())
        return found

    def view(self, partition: TopicIdPartition) -> PartitionView:
        return self.port.partitions([partition.topic])[partition]

    def _index(self, log_path: str, position: int, last_offset: int) -> None:
        """An entry every 4 KiB, in a file that is as large as it will ever be, as Kafka has them."""
        path = Path(log_path).with_suffix(".index")
        taken, indexed_at = self._index_of.get(path, (0, 0))
        if position - indexed_at <= _INDEX_INTERVAL_BYTES:
            return
        if taken == 0:
            path.write_bytes(bytes(_INDEX_BYTES))
        with path.open("r+b") as index:
            index.seek(taken * 8)
            index.write(struct.pack(">ii", last_offset - int(path.stem), position))
        self._index_of[path] = taken + 1, position

    def _open_segment(self, partition: TopicIdPartition) -> None:
        path = self.directory(partition) / f"{self._end[partition]:020d}.log"
        path.touch()
        self._active[partition] = path


def let_settle(log_dir: Path) -> None:
    """Its folders were last changed a second earlier: what changed a moment ago is looked at again, by design."""
    for folder in (log_dir, *filter(Path.is_dir, log_dir.iterdir())):
        earlier_ns = folder.stat().st_mtime_ns - 1_000_000_000
        os.utime(folder, ns=(earlier_ns, earlier_ns))
