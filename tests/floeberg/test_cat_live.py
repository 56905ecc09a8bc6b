"""``floeberg cat`` on a real broker: by offset, time and key out of the table, and on into the live topic."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from engine.errors import Unavailable
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from engine.records.records import Records
from floeberg.cat.offset_choice import OffsetChoice
from floeberg.cat.record_printer import RecordPrinter
from floeberg.commands.cat import _Source
from floeberg.commands.context import CommandContext
from floeberg.processes.local_broker import LocalBroker
from floeberg.processes.tied_process import tied
from streams.live_topic import LiveTopic, OffsetGone
from tests.floeberg.command import floeberg, hear_interrupts

TOPIC = "cat.live"
STORED = 50
"""Records of each of the two partitions that are in the table; one more closed their segment."""

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("broker")]


@pytest.fixture(scope="module")
def folder(broker: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("cat-live")
    log_dirs = json.dumps([str(log_dir) for log_dir in broker.log_dirs])
    (made / "floeberg.toml").write_text(
        f'[broker]\nbootstrap = "{broker.bootstrap}"\nlog_dirs = {log_dirs}\n'
        '[table_door]\nlisten = "127.0.0.1:1"\n'
        f'[[topics]]\nname = "{TOPIC}"\nvalue = "string"\nfreshness_ms = "closed"\n'
    )
    broker.create_topic(TOPIC, partitions=2, config={"segment.ms": "1000", "retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for partition in (0, 1):
        for number in range(STORED):
            headers = [("h", b"1"), ("h", None)] if number == 7 else None
            producer.produce(
                TOPIC, f"stored {number}", f"key {number % 5}", partition, timestamp=1_000 + number, headers=headers
            )
    assert producer.flush(30) == 0
    for partition in (0, 1):
        producer.produce(TOPIC, "first live", "key 0", partition, timestamp=500_000)
    assert producer.flush(30) == 0
    done = floeberg("tier", "--once", "--in-process", "--json", cwd=made)
    assert json.loads(done.stdout)["records"] == 2 * STORED, done.stderr
    return made


def cat(folder: Path, *arguments: str) -> list[str]:
    done = floeberg("cat", TOPIC, *arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("arguments", "offsets"),
    [
        (["-o", "47"], range(47, 50)),
        (["-o", "-2"], range(48, 50)),
        (["-o", "end"], range(0)),
        (["-o", "beginning", "-n", "3"], range(3)),
        (["-o", "s@1045"], range(45, 50)),
        (["-o", "s@1970-01-01T00:00:01.045Z", "--to", "47"], range(45, 47)),
        (["-o", "s@1010", "-o", "e@1012"], range(10, 12)),
        (["-o", "e@0"], range(0)),
        (["-o", "s@400000"], range(0)),
        (["--tail", "3"], range(47, 50)),
        (["--tail", "1000"], range(50)),
        (["--key", "key 3"], range(3, 50, 5)),
        (["--key", "key 3", "--tail", "2"], range(43, 50, 5)),
        (["--key", "no such key", "--tail", "2"], range(0)),
    ],
)
def test_records_are_found_by_offset_time_and_key(arguments: list[str], offsets: range, folder: Path) -> None:
    assert cat(folder, "-p", "1", "-f", "%p/%o\\n", *arguments) == [f"1/{offset}" for offset in offsets]


def test_columns_are_those_that_were_asked_for(folder: Path) -> None:
    asked = ("-p", "0", "-o", "7", "-n", "1", "--columns", "value,kafka_offset,kafka_key,kafka_headers")
    assert cat(folder, *asked) == ['stored 7\t7\tkey 2\t[["h", "1"], ["h", null]]']
    (record,) = map(json.loads, cat(folder, *asked, "--json"))
    assert list(record) == ["value", "kafka_offset", "kafka_key", "kafka_headers"]
    refused = floeberg("cat", TOPIC, "--columns", "value,price", cwd=folder)
    assert refused.returncode == 2
    assert "price" in refused.stderr
    assert "kafka_offset" in refused.stderr


@pytest.mark.parametrize(
    "arguments",
    [["--follow", "--to", "9"], ["--follow", "-o", "e@9"], ["-f", "%s", "--json"], ["--tail", "1", "--from", "2"]],
)
def test_options_that_contradict_each_other_are_wrong_usage(arguments: list[str], folder: Path) -> None:
    assert floeberg("cat", TOPIC, *arguments, cwd=folder).returncode == 2


def test_what_is_not_in_the_table_yet_is_found_when_it_is_followed(folder: Path) -> None:
    followed = ("-p", "0", "-f", "%o %s\\n", "--follow")
    assert cat(folder, *followed, "-o", "-2", "-n", "2") == ["49 stored 49", "50 first live"]
    assert cat(folder, *followed, "-o", "s@400000", "-n", "1") == ["50 first live"]
    assert cat(folder, *followed, "--tail", "1", "-n", "2") == ["49 stored 49", "50 first live"]


def committed(broker: LocalBroker, partition: int, end: int) -> list[tuple[int, int, str]]:
    """What a consumer of committed records gets below offset ``end``."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "any", "isolation.level": "read_committed"})
    try:
        consumer.assign([TopicPartition(TOPIC, partition, 0)])
        found = []
        while not found or found[-1][1] < end - 1:
            message = consumer.poll(30)
            assert message is not None
            found.append((partition, message.offset(), message.value().decode()))
        return found
    finally:
        consumer.close()


def test_follow_has_every_committed_record_once_across_the_tables_end(folder: Path, broker: LocalBroker) -> None:
    hear_interrupts()
    following = subprocess.Popen(
        tied([sys.executable, "-m", "floeberg", "cat", TOPIC, "--follow", "-f", "%p %o %s\\n"]),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert following.stdout is not None
    found = [following.stdout.readline() for _ in range(2 * STORED + 2)]
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": TOPIC})
    producer.init_transactions(30)
    for is_kept in (True, False, True):
        producer.begin_transaction()
        for number in range(10):
            producer.produce(TOPIC, f"{'kept' if is_kept else 'aborted'} {number}", partition=number % 2)
        producer.commit_transaction(30) if is_kept else producer.abort_transaction(30)
    found += [following.stdout.readline() for _ in range(20)]
    following.send_signal(signal.SIGINT)
    assert following.stdout.read() == ""
    assert following.wait(60) == 0
    read = [line.strip().split(" ", 2) for line in found]
    for partition in (0, 1):
        own = [(partition, int(offset), value) for found_in, offset, value in read if int(found_in) == partition]
        assert own == committed(broker, partition, own[-1][1] + 1)
        kept = [value for _, _, value in own if value.startswith("kept")]
        assert kept == [f"kept {number}" for number in range(partition, 10, 2)] * 2


def test_offset_that_the_broker_has_no_more_is_gone(broker: LocalBroker, topic_name: str) -> None:
    broker.create_topic(topic_name, partitions=1)
    live = LiveTopic(topic_name, bootstrap=broker.bootstrap, security={})
    try:
        live.go_on_at({0: 5})
        with pytest.raises(OffsetGone) as gone:
            list(iter(live.take, None))
        assert (gone.value.partition, gone.value.offset) == (0, 5)
    finally:
        live.close()


class _Gone:
    """A live topic whose broker dropped what comes next while the table was read."""

    def __init__(self) -> None:
        self.went_on_at: list[dict[int, int]] = []

    def go_on_at(self, positions: dict[int, int]) -> None:
        self.went_on_at.append(dict(positions))

    def take(self) -> list[tuple[int, Records]]:
        partition, offset = 1, self.went_on_at[-1][1]
        raise OffsetGone(partition, offset)


def test_what_the_broker_dropped_meanwhile_comes_out_of_the_table_or_is_named(folder: Path) -> None:
    command = CommandContext(config=folder / "floeberg.toml")
    table = command.tables.named(TOPIC)
    reader, live = LogReader(file_index=FileIndex()), _Gone()
    source = _Source(command=command, reader=reader, table=table, live=live, choice=OffsetChoice(), tail=None)  # type: ignore[arg-type]
    printer = RecordPrinter.of(table, form="%o ", columns=(), as_json=False, key=None)
    pieces = source._followed(live, {0: 50, 1: 45})  # type: ignore[arg-type]
    partition, records = next(pieces)
    assert (partition, b"".join(printer.lines(partition, records))) == (1, b"45 46 47 48 49 ")
    with pytest.raises(Unavailable, match="offset 50"):
        next(pieces)
    reader.close()
    assert live.went_on_at == [{0: 50, 1: 45}, {0: 50, 1: 50}]
