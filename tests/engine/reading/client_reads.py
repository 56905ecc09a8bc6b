"""What a client makes of record batches, and what it must get."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from aiokafka.record.memory_records import MemoryRecords

from engine.kafka_log.record_batch import CONTROL_FLAG, NO_LEADER_EPOCH, parse_header
from engine.offset_range import OffsetRange
from engine.reading.log_reader import LogReader
from engine.records.records import Records
from tests.engine.offset_table import OffsetTable


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainRecord:
    offset: int
    timestamp_ms: int
    timestamp_type: int
    leader_epoch: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def plain(records: Records) -> list[PlainRecord]:
    return [
        PlainRecord(
            offset=int(records.offset[row]),
            timestamp_ms=int(records.timestamp_ms[row]),
            timestamp_type=int(records.timestamp_type[row]),
            leader_epoch=int(records.leader_epoch[row]),
            key=records.key[row],
            value=records.value[row],
            headers=()
            if records.headers is None
            else tuple((key.decode(), value) for key, value in records.headers.of_record(row)),
        )
        for row in range(len(records))
    ]


def as_a_client_reads(batches: Sequence[memoryview]) -> list[PlainRecord]:
    """What aiokafka makes of the batches; each CRC is checked."""
    found: list[PlainRecord] = []
    memory = MemoryRecords(b"".join(batches))
    while memory.has_next():
        batch = memory.next_batch()
        assert batch.validate_crc()
        if batch.is_control_batch:
            continue
        found += [
            PlainRecord(
                offset=record.offset,
                timestamp_ms=record.timestamp,
                timestamp_type=record.timestamp_type,
                leader_epoch=-2,
                key=record.key,
                value=record.value,
                headers=tuple(record.headers),
            )
            for record in batch
        ]
    return found


def check_batches(batches: Sequence[memoryview], expected: Sequence[PlainRecord], wanted: OffsetRange) -> None:
    """The batches hold exactly ``expected`` and cover every offset up to the end of ``wanted`` once."""
    assert [replace(record, leader_epoch=-2) for record in expected] == as_a_client_reads(batches)
    headers = [parse_header(bytes(batch)) for batch in batches]
    epoch_of = {record.offset: record.leader_epoch for record in expected}
    for before, after in itertools.pairwise(headers):
        assert before.next_offset == after.base_offset
    for batch, header in zip(batches, headers, strict=True):
        last_record = list(MemoryRecords(bytes(batch)).next_batch())[-1]
        assert last_record.offset == header.last_offset, "some clients go on after the last record, not the batch"
        is_control = header.attributes & CONTROL_FLAG
        assert header.leader_epoch == (NO_LEADER_EPOCH if is_control else epoch_of[header.last_offset])
    assert headers[-1].next_offset == wanted.end


def read(reader: LogReader, table: OffsetTable, wanted: OffsetRange, start: int, **more: object) -> list[memoryview]:
    return list(reader.read(table.view, 0, offsets=wanted, start=start, **more))  # type: ignore[arg-type]
