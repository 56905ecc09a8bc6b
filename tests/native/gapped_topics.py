"""Topics whose history is in the table only, with gaps of every kind: of transactions, compaction and erasure."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.native.stage import PLAIN, TIERED, NativeStage, eventually, sample
from tests.native.transactional_topic import Kept, TransactionalTopic, Writer

SEGMENT_RECORDS = 8_000
"""More than a segment of 1 MiB holds."""
ROUNDS = 40
COMPACTED = {
    **PLAIN,
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "1000",
}
HOT_KEYS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class GappedTopic:
    """``kept``: what every consumer has to be given, of either isolation level; the last one is at ``end`` - 1."""

    name: str
    kept: Sequence[Kept]

    @property
    def end(self) -> int:
        return self.kept[-1][0] + 1


def aborted_topic(stage: NativeStage) -> GappedTopic:
    """Whole segments without one committed record: the first ones, and several in a row; small gaps between them.

    The live tail has committed records alone, as what is aborted there is still shown to who asks for it.
    """
    name = "aborted"
    with TransactionalTopic(stage.broker.bootstrap, name) as topic:
        with stage.tiering_away():
            stage.create(name, TIERED)
            writer, tail = topic.transactional("one"), topic.idempotent()
            _transaction(writer, SEGMENT_RECORDS, is_committed=False)
            chance = random.Random(7)
            for _ in range(ROUNDS):
                _transaction(writer, chance.randrange(1, 30), is_committed=chance.random() < 0.5)
            _transaction(writer, SEGMENT_RECORDS, is_committed=True)
            _transaction(writer, 3 * SEGMENT_RECORDS, is_committed=False)
            _transaction(writer, 200, is_committed=True)
            _transaction(writer, 100, is_committed=False)
            tail.write(sample(0, 2 * SEGMENT_RECORDS))
            assert len(_empty_segments(stage, name, topic.told())) >= 3
        stage.await_history_gone(name)
        return GappedTopic(name=name, kept=topic.told())


def once_compacted_topic(stage: NativeStage) -> GappedTopic:
    """A compacted topic whose policy was changed to one that Kafka tiers: what is left of its old segments."""
    name = "once-compacted"
    with TransactionalTopic(stage.broker.bootstrap, name) as topic, stage.tiering_away():
        stage.create(name, COMPACTED)
        records = sample(0, 5 * SEGMENT_RECORDS)
        topic.idempotent().write(
            [
                replace(record, key=b"once-%d" % number if number % 97 == 0 else b"hot-%d" % (number % HOT_KEYS))
                for number, record in enumerate(records)
            ]
        )
        eventually(lambda: _is_compacted(stage, name), lambda: "Kafka compacts nothing")
        _alter(stage, name, {**TIERED, "cleanup.policy": "delete"})
        kept, _ = topic.read("read_committed")
        assert len(kept) < len(records) // 2
    stage.await_history_gone(name)
    return GappedTopic(name=name, kept=kept)


def erased_topic(stage: NativeStage) -> GappedTopic:
    """A topic of which a key was erased: whole segments, the first among them, and records here and there."""
    name, key, segments = "erased", b"forget me", 7
    gone = {at for at in range(segments * SEGMENT_RECORDS) if at // SEGMENT_RECORDS in {0, 3, 4} or at % 97 == 0}
    gone -= set(range((segments - 2) * SEGMENT_RECORDS, segments * SEGMENT_RECORDS))
    stage.create(name, TIERED)
    records = sample(0, segments * SEGMENT_RECORDS)
    stage.produce(name, [replace(one, key=key) if at in gone else one for at, one in enumerate(records)], codec="none")
    stage.await_history_gone(name)
    with stage.closed_door():  # its view of the table lasts a minute: a new one's is the newest
        report = stage.erase(name, key)
    assert (report.record_count, report.left) == (len(gone), ())
    assert stage.table(name).empty, "a file of which nothing is left is none"
    assert stage.fsck(name).findings == ()
    return GappedTopic(name=name, kept=[(at, one.value) for at, one in enumerate(records) if at not in gone])


def _transaction(writer: Writer, count: int, *, is_committed: bool) -> None:
    writer.begin()
    writer.write(sample(0, count))
    (writer.commit if is_committed else writer.abort)()


def _empty_segments(stage: NativeStage, topic: str, kept: Sequence[Kept]) -> list[tuple[int, int]]:
    """The offsets of the closed segments that hold no committed record."""
    bases = [int(base) for base in stage.local_segments(topic)]
    offsets = [offset for offset, _ in kept]
    return [
        (start, end) for start, end in itertools.pairwise(bases) if not any(start <= offset < end for offset in offsets)
    ]


def _is_compacted(stage: NativeStage, topic: str) -> bool:
    """Whether the cleaner has been through every closed segment."""
    active = int(stage.local_segments(topic)[-1])
    checkpoints = [log_dir / "cleaner-offset-checkpoint" for log_dir in stage.broker.log_dirs]
    lines = [line for path in checkpoints if path.exists() for line in path.read_text().splitlines()]
    return active > 0 and f"{topic} 0 {active}" in lines


def _alter(stage: NativeStage, topic: str, config: dict[str, str]) -> None:
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in config.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": stage.broker.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(timeout=30)
