"""Files that are hurt between their writing and their verification, as a disk or a memory module would hurt them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc

from engine.parquet.leaves import field_id
from engine.table.data_file import ColumnStats, FileDescription
from engine.table.rows.parquet_writer import bounds_of
from tests.engine.parquet.pyarrow_files import described, rewritten
from tests.simulation.object_store import ObjectStore


class Damage:
    """What waits for the next file of one daemon: ``flip``, one bit of the stored bytes is another; ``memory``, one
    value was another before it was written, so that every checksum of the file is right and the records are not."""

    def __init__(self, store: ObjectStore, note: Callable[[str], None]) -> None:
        self.waiting: list[tuple[str, random.Random]] = []
        self._store = store
        self._note = note

    def hurt(self, file: FileDescription) -> FileDescription:
        if not self.waiting:
            return file
        kind, dice = self.waiting.pop(0)
        self._note(kind)
        key = file.path.removeprefix("s3://")
        content = self._store.objects[key]
        if kind == "flip-byte":
            self._store.objects[key] = _flipped(content, dice)
            return file
        self._store.objects[key], file = _with_another_value(content, file, dice)
        return file


def _flipped(content: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(content))
    changed = bytearray(content)
    changed[at] ^= 1 << dice.randrange(8)
    return bytes(changed)


def _with_another_value(content: bytes, file: FileDescription, dice: random.Random) -> tuple[bytes, FileDescription]:
    """The file and its description, had one value been another when its writer got it."""
    name = dice.choice(("kafka_timestamp", "kafka_leader_epoch"))
    columns: dict[int, ColumnStats] = {}

    def change(rows: pa.Table) -> pa.Table:
        index = rows.schema.get_field_index(name)
        field = rows.schema.field(index)
        numbers = rows.column(index).cast(pa.int64()).to_pylist()
        row = dice.randrange(rows.num_rows)
        numbers[row] = (numbers[row] or 0) + 1000
        present = [number for number in numbers if number is not None]
        bounds = bounds_of(field.type, min(present), max(present))
        columns[field_id(field)] = replace(
            file.columns[field_id(field)],
            null_count=len(numbers) - len(present),
            lower=bounds.lower,
            upper=bounds.upper,
        )
        return rows.set_column(index, field, pc.cast(pa.array(numbers, pa.int64()), field.type))

    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.parquet"
        path.write_bytes(content)
        rewritten(path, change)
        return path.read_bytes(), replace(described(file, path), columns={**file.columns, **columns})
