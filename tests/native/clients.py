"""Unmodified Kafka clients, each reading a partition from an offset as its own users would."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonPartition

from floeberg.java.jdk import java_command
from floeberg.java.maven_jars import KAFKA_BROKER, KAFKA_VERSION, MavenArtifact, class_path, resolve_jars
from floeberg.processes.tied_process import tied
from tests.native.stage import Sent

READ_TIMEOUT_S = 60.0
_KAFKA_TOOLS = (*KAFKA_BROKER, MavenArtifact(group="org.apache.kafka", name="kafka-tools", version=KAFKA_VERSION))
_groups = itertools.count()

ISOLATIONS = ["read_committed", "read_uncommitted"]

Read = tuple[int, Sent]
"""An offset and what a consumer got there."""


class Client(Protocol):
    """Reads from ``start`` to the offset before ``end``; ``progress`` is told how far it is."""

    def __call__(
        self,
        bootstrap: str,
        topic: str,
        start: int,
        end: int,
        progress: Callable[[int], None],
        subscribe: bool,
        isolation: str = "read_committed",
    ) -> list[Read]: ...


def group() -> str:
    return f"group-{next(_groups)}-{time.monotonic_ns()}"


def confluent(
    bootstrap: str,
    topic: str,
    start: int,
    end: int,
    progress: Callable[[int], None],
    subscribe: bool,
    isolation: str = "read_committed",
) -> list[Read]:
    """librdkafka; raises what the application would be told."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group(),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "check.crcs": True,
        }
    )
    try:
        if subscribe:
            consumer.subscribe([topic])
        else:
            consumer.assign([TopicPartition(topic, 0, start)])
        found: list[Read] = []
        for _ in _until_timeout():
            for message in consumer.consume(2000, 0.5):
                assert message.error() is None, message.error()
                found.append((message.offset(), _from_confluent(message)))
            progress(found[-1][0] if found else -1)
            if found and found[-1][0] >= end - 1:
                return found
        raise AssertionError(f"read up to {found[-1][0] if found else None} of {end}")
    finally:
        consumer.close()


def _from_confluent(message: object) -> Sent:
    return Sent(
        key=message.key(),  # type: ignore[attr-defined]
        value=message.value(),  # type: ignore[attr-defined]
        timestamp_ms=message.timestamp()[1],  # type: ignore[attr-defined]
        headers=tuple(message.headers() or ()),  # type: ignore[attr-defined]
    )


def aio(
    bootstrap: str,
    topic: str,
    start: int,
    end: int,
    progress: Callable[[int], None],
    subscribe: bool,
    isolation: str = "read_committed",
) -> list[Read]:
    async def read() -> list[Read]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group(),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level=isolation,
        )
        await consumer.start()
        try:
            if subscribe:
                consumer.subscribe([topic])
            else:
                consumer.assign([AioPartition(topic, 0)])
                consumer.seek(AioPartition(topic, 0), start)
            found: list[Read] = []
            for _ in _until_timeout():
                for messages in (await consumer.getmany(timeout_ms=500)).values():
                    found += [(message.offset, _from_python(message)) for message in messages]
                await asyncio.to_thread(progress, found[-1][0] if found else -1)
                if found and found[-1][0] >= end - 1:
                    return found
            raise AssertionError(f"read up to {found[-1][0] if found else None} of {end}")
        finally:
            await consumer.stop()

    return asyncio.run(read())


def python(
    bootstrap: str,
    topic: str,
    start: int,
    end: int,
    progress: Callable[[int], None],
    subscribe: bool,
    isolation: str = "read_committed",
) -> list[Read]:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group(),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level=isolation,
    )
    try:
        if subscribe:
            consumer.subscribe([topic])
        else:
            consumer.assign([PythonPartition(topic, 0)])
            consumer.seek(PythonPartition(topic, 0), start)
        found: list[Read] = []
        for _ in _until_timeout():
            for messages in consumer.poll(timeout_ms=500, max_records=2000).values():
                found += [(message.offset, _from_python(message)) for message in messages]
            progress(found[-1][0] if found else -1)
            if found and found[-1][0] >= end - 1:
                return found
        raise AssertionError(f"read up to {found[-1][0] if found else None} of {end}")
    finally:
        consumer.close()


def _from_python(message: object) -> Sent:
    return Sent(
        key=message.key,  # type: ignore[attr-defined]
        value=message.value,  # type: ignore[attr-defined]
        timestamp_ms=message.timestamp,  # type: ignore[attr-defined]
        headers=tuple(tuple(header) for header in message.headers),  # type: ignore[attr-defined]
    )


def java_console(
    bootstrap: str, topic: str, count: int, *, subscribe: bool, isolation: str = "read_committed"
) -> list[str]:
    """The lines that Kafka's own console consumer prints: timestamp, offset, headers, key, value."""
    command = [java_command(), "-Xmx256m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    command += ["-cp", class_path(resolve_jars(_KAFKA_TOOLS)), "org.apache.kafka.tools.consumer.ConsoleConsumer"]
    command += ["--bootstrap-server", bootstrap, "--topic", topic, "--max-messages", str(count)]
    command += ["--timeout-ms", "60000", "--isolation-level", isolation]
    command += ["--group", group(), "--from-beginning"] if subscribe else ["--partition", "0", "--offset", "earliest"]
    for name in ("timestamp", "offset", "headers", "key"):
        command += ["--property", f"print.{name}=true"]
    done = subprocess.run(tied(command), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def java_line(offset: int, sent: Sent) -> str:
    """What the console consumer prints for a record."""
    headers = ",".join(f"{key}:{_text(value)}" for key, value in sent.headers) or "NO_HEADERS"
    return f"CreateTime:{sent.timestamp_ms}\tOffset:{offset}\t{headers}\t{_text(sent.key)}\t{_text(sent.value)}"


def _text(value: bytes | None) -> str:
    return "null" if value is None else value.decode()


def _until_timeout() -> Iterator[None]:
    deadline = time.monotonic() + READ_TIMEOUT_S
    while time.monotonic() < deadline:
        yield


CLIENTS: dict[str, Client] = {"confluent-kafka": confluent, "aiokafka": aio, "kafka-python": python}
