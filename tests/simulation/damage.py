"""Files that are hurt between their writing and their verification, as a disk or a memory module would hurt them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import crc32c
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.simulation.object_store import ObjectStore
from tiering.rewrite_task import Rewritten


class Damage:
    """What waits for the next file of one daemon: ``flip``, one bit of the stored bytes is another; ``memory``, one
    value was another before it was written, so that every checksum of the file is right and the records are not."""

    def __init__(self, store: ObjectStore, note: Callable[[str], None]) -> None:
        self.waiting: list[tuple[str, random.Random]] = []
        self._store = store
        self._note = note

    def hurt(self, outcome: Rewritten) -> Rewritten:
        if not self.waiting or outcome.file is None:
            return outcome
        kind, dice = self.waiting.pop(0)
        self._note(kind)
        key = outcome.file.path.removeprefix("s3://")
        content = self._store.objects[key]
        if kind == "flip-byte":
            self._store.objects[key] = _flipped(content, dice)
            return outcome
        changed = _with_another_value(content, dice)
        self._store.objects[key] = changed
        file = replace(outcome.file, size_bytes=len(changed), checksum=crc32c.crc32c(changed))
        return replace(outcome, file=file)


def _flipped(content: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(content))
    changed = bytearray(content)
    changed[at] ^= 1 << dice.randrange(8)
    return bytes(changed)


def _with_another_value(content: bytes, dice: random.Random) -> bytes:
    table = pq.read_table(pa.BufferReader(content), use_threads=False)
    column = dice.choice(("kafka_timestamp", "kafka_leader_epoch"))
    index = table.schema.get_field_index(column)
    field = table.schema.field(index)
    row = dice.randrange(table.num_rows)
    numbers = table.column(index).cast(pa.int64()).to_pylist()
    numbers[row] = (numbers[row] or 0) + 1000
    table = table.set_column(index, field, pc.cast(pa.array(numbers, pa.int64()), field.type))
    sink = pa.BufferOutputStream()
    metadata = pq.read_metadata(pa.BufferReader(content)).metadata
    with pq.ParquetWriter(sink, table.schema, write_page_checksum=True, write_page_index=True) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({key: value for key, value in metadata.items() if key != b"ARROW:schema"})
    written: bytes = sink.getvalue().to_pybytes()
    return written
