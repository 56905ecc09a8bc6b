"""Topics written in transactions: what is stored, what holds tiering back, and what each kind of consumer reads."""

from __future__ import annotations

import random

import pytest

from engine.offset_range import OffsetRange
from tests.native.stage import PLAIN, TIERED, NativeStage, eventually, sample
from tests.native.transactional_topic import Kept, TransactionalTopic
from tiering.planner import Waiting

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("native")]

ROUNDS = 60
LONG = 12_000
"""Records of about 150 B that do not fit into one segment of 1 MiB."""


def write_interleaved(topic: TransactionalTopic, seed: int) -> None:
    """Three transactional producers and an idempotent one take turns; each turn's records lie behind the last one's.

    Transactions stay open over several turns of the others, so that they overlap in every way; at the end a last one
    is aborted whose records fill more than a segment and whose marker is in a later one.
    """
    chance = random.Random(seed)
    writers = [topic.transactional(name) for name in ("first", "second", "third")]
    plain = topic.idempotent()
    is_open = [False] * len(writers)
    at = 0
    for _ in range(ROUNDS):
        count = chance.randrange(20, 400)
        number = chance.randrange(len(writers) + 1)
        if number == len(writers):
            plain.write(sample(at, count))
        else:
            writer = writers[number]
            if not is_open[number]:
                writer.begin()
                is_open[number] = True
            writer.write(sample(at, count))
            fate = chance.random()
            if fate < 0.6:
                (writer.commit if fate < 0.35 else writer.abort)()
                is_open[number] = False
        at += count
    for number, writer in enumerate(writers):
        if is_open[number]:
            (writer.commit if number else writer.abort)()
    long, other = writers[0], writers[1]
    for fate in (long.abort, long.commit):
        long.begin()
        long.write(sample(at, LONG))
        other.begin()
        other.write(sample(at + LONG, 50))
        other.commit()
        fate()
        at += LONG + 50
    plain.write(sample(at, LONG))


def waiting(stage: NativeStage, topic: str) -> list[str]:
    """Why the topic waits; nothing while the loop has not seen the topic."""
    return [str(report.waiting) for report in stage.reports() if report.partition.topic == topic]


def tiered_end(stage: NativeStage, topic: str) -> int:
    return stage.report_of(topic).status.tiered_end or 0


def test_consumers_of_interleaved_transactions_end_where_they_would_on_a_plain_broker(stage: NativeStage) -> None:
    bootstrap = stage.broker.bootstrap
    stage.create("transactions", TIERED)
    stage.create("transactions-plain", PLAIN)
    with (
        TransactionalTopic(bootstrap, "transactions") as tiered,
        TransactionalTopic(bootstrap, "transactions-plain") as plain,
    ):
        for topic in (tiered, plain):
            write_interleaved(topic, seed=11)
        stage.await_history_gone("transactions")
        assert len(stage.local_segments("transactions-plain")) > 4
        history = int(stage.local_segments("transactions")[0])

        committed, committed_end = tiered.read("read_committed")
        assert committed == tiered.told()
        # Markers are written when a commit was answered already: where they lie between others' records is chance.
        assert plain.read("read_committed") == (plain.told(), plain.end_offset())

        everything, end = tiered.read("read_uncommitted")
        assert end == committed_end == tiered.end_offset()
        # Aborted records are not kept (docs/row_format.md): only the broker's own segments still show them.
        aborted_here = [kept for kept in tiered.aborted if kept[0] >= history]
        assert everything == sorted(tiered.told() + aborted_here)
        assert len(tiered.aborted) > len(aborted_here) + LONG - 1

        # Every offset of history is covered, those of markers and aborted records too, and a seek into a gap that an
        # aborted transaction left lands on the first record behind it.
        assert stage.table("transactions").ledger[0].range.covers(OffsetRange(start=0, end=history))
        gaps = [offset for offset, _ in tiered.aborted if offset < history - 1]
        for offset in random.Random(3).sample(gaps, 5):
            assert first_read(tiered, offset) == first_at(tiered.told(), offset)
            assert first_read(plain, offset) == first_at(plain.told(), offset)
        assert stage.fsck("transactions").findings == ()


def first_read(topic: TransactionalTopic, offset: int) -> Kept:
    found, _ = topic.read("read_committed", start=offset)
    return found[0]


def first_at(told: list[Kept], offset: int) -> Kept:
    return next(kept for kept in told if kept[0] >= offset)


@pytest.mark.parametrize("fate", ["commit", "abort"])
def test_open_transaction_holds_tiering_at_its_first_record_and_says_so(stage: NativeStage, fate: str) -> None:
    name = f"held-by-a-transaction-{fate}"
    stage.create(name, TIERED)
    with TransactionalTopic(stage.broker.bootstrap, name) as topic:
        others, holder = topic.idempotent(), topic.transactional("holder")
        others.write(sample(0, LONG))
        holder.begin()
        holder.write(sample(LONG, 10))
        first_open = holder.pending[0][0]
        others.write(sample(LONG + 10, LONG))
        is_told = f"an open transaction holds the last stable offset at offset {first_open}"
        eventually(lambda: is_told in waiting(stage, name), lambda: stage.describe(name))
        assert stage.report_of(name).problem is None
        assert tiered_end(stage, name) <= first_open
        assert len(stage.local_segments(name)) > 1
        # Whoever reads committed records waits there too; whoever does not sees all of them.
        assert topic.read("read_committed") == ([kept for kept in topic.told() if kept[0] < first_open], first_open)
        assert len(topic.read("read_uncommitted")[0]) == 2 * LONG + 10

        holder.commit() if fate == "commit" else holder.abort()
        stage.await_history_gone(name)
        assert tiered_end(stage, name) > first_open
        assert stage.report_of(name).waiting is not None
        assert stage.report_of(name).waiting.kind is not Waiting.OPEN_TRANSACTION  # type: ignore[union-attr]
        found, end = topic.read("read_committed")
        assert (found, end) == (topic.told(), topic.end_offset())
        assert len(found) == 2 * LONG + (10 if fate == "commit" else 0)
        assert stage.fsck(name).findings == ()


def test_idempotent_producer_goes_on_when_its_history_left_the_broker_and_the_broker_was_killed(
    stage: NativeStage,
) -> None:
    stage.create("idempotent", TIERED)
    with TransactionalTopic(stage.broker.bootstrap, "idempotent") as topic:
        writer, transactional = topic.idempotent(), topic.transactional("one")
        writer.write(sample(0, LONG))
        transactional.begin()
        transactional.write(sample(LONG, 100))
        transactional.commit()
        writer.write(sample(LONG + 100, LONG))
        stage.await_history_gone("idempotent")
        stage.broker.kill()
        stage.broker.start()
        writer.write(sample(2 * LONG + 100, LONG))
        transactional.begin()
        transactional.write(sample(3 * LONG + 100, 100))
        transactional.commit()
        stage.await_history_gone("idempotent")
        found, end = topic.read("read_committed")
        assert (found, end) == (topic.told(), topic.end_offset())
        assert len(found) == 3 * LONG + 200
