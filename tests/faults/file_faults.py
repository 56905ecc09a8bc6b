"""Faults of one data file: bytes of every part of it, whole contents, and rows that somebody edited."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import ManifestEntry

from engine.fsck.report import Damage
from tests.faults.fault import Faults, Region
from tests.faults.fault_world import SEGMENT, FaultWorld, cut, flip

FILES = Faults(Region.DATA_FILE)

_ANY_BIT = (Damage.DAMAGED_FILE, Damage.FALSE_BOUNDS, Damage.MISPLACED_ROWS, Damage.WRONG_COUNT, Damage.SWAPPED_FILE)


def _file(world: FaultWorld) -> Path:
    return world.file(0, 0)


@FILES.fault(Damage.MISSING_FILE)
def file_is_gone(world: FaultWorld) -> str:
    path = _file(world)
    path.unlink()
    return path.name


@FILES.fault(Damage.MISSING_FILE)
def file_has_another_name(world: FaultWorld) -> str:
    path = _file(world)
    path.rename(path.with_name("moved.parquet"))
    return path.name


def _lengths() -> None:
    for name, keep in (("file is empty", 0.0), ("half of the file", 0.5), ("file without its last bytes", 0.999)):

        def plant(world: FaultWorld, keep: float = keep) -> str:
            path = _file(world)
            cut(path, keep)
            return path.name

        FILES.fault(Damage.WRONG_SIZE, Damage.DAMAGED_FILE, name=name)(plant)


def _bytes() -> None:
    """Plants that change bytes at a place which a function finds."""
    places: dict[str, Callable[[bytes, Path], int]] = {
        "magic at the start": lambda _content, _path: 1,
        "magic at the end": lambda content, _path: len(content) - 2,
        "length of the footer": lambda content, _path: len(content) - 8,
        "digest in the footer": lambda content, _path: content.rindex(b"floeberg.digest") + 30,
        "range in the footer": lambda content, _path: content.rindex(b"floeberg.range") + 18,
        "header of the first page": lambda _content, _path: 5,
        "header of the last column's page": lambda _content, path: _last_page(path) + 1,
        "column index": lambda content, path: _index_place(content, path, column=True),
        "offset index": lambda content, path: _index_place(content, path, column=False),
    }
    for part, share in ((part, share) for part in ("pages", "footer") for share in (0.1, 0.3, 0.5, 0.7, 0.9)):
        places[f"{part} at {share}"] = lambda content, path, part=part, share=share: _place_in(
            content, path, part=part, share=share
        )
    for name, place in places.items():

        def plant(world: FaultWorld, place: Callable[[bytes, Path], int] = place) -> str:
            path = _file(world)
            content = bytearray(path.read_bytes())
            content[place(bytes(content), path)] ^= 0x04
            path.write_bytes(content)
            return path.name

        # A reader may need none of what was damaged; what it gives out is compared all the same.
        FILES.fault(*_ANY_BIT, is_seen=False, name=f"a bit: {name}")(plant)


def _footer_start(content: bytes) -> int:
    return len(content) - 8 - int.from_bytes(content[-8:-4], "little")


def _pages_end(path: Path) -> int:
    group = pq.read_metadata(path).row_group(0)
    last = group.column(group.num_columns - 1)
    return int(_last_page(path) + last.total_compressed_size)


def _last_page(path: Path) -> int:
    group = pq.read_metadata(path).row_group(0)
    last = group.column(group.num_columns - 1)
    return int(last.dictionary_page_offset or last.data_page_offset)


def _index_place(content: bytes, path: Path, *, column: bool) -> int:
    """In the page indexes, which lie between the pages and the footer: column indexes first."""
    start, end = _pages_end(path), _footer_start(content)
    return start + (end - start) // 4 if column else end - 6


def _place_in(content: bytes, path: Path, *, part: str, share: float) -> int:
    start, end = (4, _pages_end(path)) if part == "pages" else (_footer_start(content), len(content) - 8)
    return start + int((end - start) * share)


_lengths()
_bytes()


@FILES.fault(Damage.DAMAGED_FILE)
def file_of_zeros(world: FaultWorld) -> str:
    path = _file(world)
    path.write_bytes(bytes(path.stat().st_size))
    return path.name


@FILES.fault(Damage.DAMAGED_FILE)
def a_sector_of_zeros(world: FaultWorld) -> str:
    path = _file(world)
    content = bytearray(path.read_bytes())
    content[2048:2560] = bytes(512)
    path.write_bytes(content)
    return path.name


@FILES.fault(Damage.WRONG_SIZE)
def bytes_behind_the_file(world: FaultWorld) -> str:
    path = _file(world)
    path.write_bytes(path.read_bytes() + b"more")
    return path.name


@FILES.fault(Damage.WRONG_SIZE)
def bytes_put_into_the_file(world: FaultWorld) -> str:
    path = _file(world)
    content = path.read_bytes()
    path.write_bytes(content[:1000] + b"more" + content[1000:])
    return path.name


@FILES.fault(Damage.SWAPPED_FILE)
def file_of_another_range(world: FaultWorld) -> str:
    shutil.copy(world.file(0, 2 * SEGMENT), _file(world))
    return _file(world).name


@FILES.fault(Damage.SWAPPED_FILE)
def file_of_another_partition(world: FaultWorld) -> str:
    shutil.copy(world.file(1, 0), _file(world))
    return _file(world).name


@FILES.fault(Damage.SWAPPED_FILE, Damage.DAMAGED_FILE)
def file_of_another_topic(world: FaultWorld) -> str:
    shutil.copy(world.file(0, 0, table="payments"), _file(world))
    return _file(world).name


def _edited(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Other rows in a whole file that has the first one's footer words, as a careful forger would make it."""
    words = pq.read_metadata(path).metadata
    rows = change(pq.ParquetFile(path).read())
    with pq.ParquetWriter(path, rows.schema, store_schema=False, write_page_index=True) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata({key: value for key, value in words.items() if key.startswith(b"floeberg.")})


def _with_amount(rows: pa.Table) -> pa.Table:
    amounts = rows.column("amount").to_numpy().copy()
    amounts[7] += 0.01
    at = rows.schema.get_field_index("amount")
    return rows.set_column(at, rows.schema.field(at), pa.array(amounts))


def _with_key(rows: pa.Table) -> pa.Table:
    keys = rows.column("kafka_key").to_pylist()
    keys[7] = "another" if isinstance(keys[7], str) else b"another"
    at = rows.schema.get_field_index("kafka_key")
    return rows.set_column(at, rows.schema.field(at), pa.array(keys, rows.schema.field(at).type))


ROW_EDITS: dict[str, Callable[[pa.Table], pa.Table]] = {
    "a value is another": _with_amount,
    "a key is another": _with_key,
    "a row is gone": lambda rows: pa.concat_tables([rows.slice(0, 7), rows.slice(8)]),
    "a row is there twice": lambda rows: pa.concat_tables([rows.slice(0, 8), rows.slice(7)]),
    "rows in no order": lambda rows: rows.take(pa.array(np.arange(len(rows))[::-1])),
}


def _row_edits() -> None:
    for name, change in ROW_EDITS.items():

        def plant(world: FaultWorld, change: Callable[[pa.Table], pa.Table] = change) -> str:
            path = _file(world)
            _edited(path, change)
            return path.name

        FILES.fault(*_ANY_BIT, Damage.WRONG_SIZE, name=f"rows edited: {name}")(plant)

        def plant_both(world: FaultWorld, change: Callable[[pa.Table], pa.Table] = change) -> str:
            path = _file(world)
            manifest = world.manifest_of(0, 0)
            _edited(path, change)

            def with_size(entries: list[ManifestEntry]) -> list[ManifestEntry]:
                for entry in entries:
                    if entry.data_file.file_path.endswith(path.name):
                        entry.data_file._data[5] = path.stat().st_size
                        entry.data_file._data[4] = pq.read_metadata(path).num_rows
                return entries

            world.rewrite_manifest(manifest, with_size)
            return ".avro"

        FILES.fault(Damage.DAMAGED_METADATA, name=f"rows and manifest edited: {name}")(plant_both)


_row_edits()


@FILES.fault(Damage.DAMAGED_FILE, Damage.MISSING_FILE, Damage.LOST_RANGE)
def adopted_file_is_gone(world: FaultWorld) -> str:
    path = world.adopted_file()
    path.unlink()
    return path.name


@FILES.fault(Damage.DAMAGED_FILE)
def adopted_file_with_a_flipped_bit(world: FaultWorld) -> str:
    path = world.adopted_file()
    flip(path, 0.2)
    return path.name


@FILES.fault(Damage.DAMAGED_FILE)
def adopted_file_with_another_value(world: FaultWorld) -> str:
    path = world.adopted_file()
    rows = _with_amount(pq.ParquetFile(path).read())
    with pq.ParquetWriter(path, rows.schema) as writer:
        writer.write_table(rows)
    return path.name
