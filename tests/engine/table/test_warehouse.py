from __future__ import annotations

import pickle
from pathlib import Path

import crc32c
import pytest

from engine.errors import Corrupt, Invalid, Unavailable
from engine.table.warehouse import Warehouse

WAREHOUSE = Warehouse()


def test_file_is_not_there_until_it_is_committed(tmp_path: Path) -> None:
    path = f"file://{tmp_path}/a/b/x.bin"
    with WAREHOUSE.create(path) as new:
        new.write(b"hello ")
        new.write(memoryview(b"world"))
        assert not WAREHOUSE.exists(path)
        new.commit()
    assert WAREHOUSE.read_bytes(path) == b"hello world"
    assert new.size_bytes == WAREHOUSE.size_bytes(path) == 11
    assert new.checksum == crc32c.crc32c(b"hello world")


def test_file_that_is_not_committed_leaves_nothing(tmp_path: Path) -> None:
    with WAREHOUSE.create(f"{tmp_path}/x.bin") as new:
        new.write(b"half")
    assert list(tmp_path.iterdir()) == []


def test_crash_while_writing_leaves_only_a_temporary_name(tmp_path: Path) -> None:
    WAREHOUSE.create(f"{tmp_path}/x.bin").write(b"half")  # the process dies here
    assert [path.name for path in tmp_path.iterdir()] == ["x.bin.writing"]


def test_listing_shows_every_file_below_with_its_size(tmp_path: Path) -> None:
    root = f"file://{tmp_path}"
    WAREHOUSE.write_bytes(f"{root}/p=1/x", b"12")
    WAREHOUSE.write_bytes(f"{root}/p=2/y", b"123")
    assert sorted((f.path, f.size_bytes) for f in WAREHOUSE.list(root)) == [(f"{root}/p=1/x", 2), (f"{root}/p=2/y", 3)]
    assert all(file.modified_ms > 1_600_000_000_000 for file in WAREHOUSE.list(root))
    assert list(WAREHOUSE.list(f"{root}/nothing")) == []


def test_missing_file_is_corrupt_and_deleting_it_is_not_an_error(tmp_path: Path) -> None:
    path = f"{tmp_path}/gone"
    for ask in (WAREHOUSE.open_input, WAREHOUSE.size_bytes, WAREHOUSE.read_bytes):
        with pytest.raises(Corrupt, match="missing"):
            ask(path)
    WAREHOUSE.delete(path)


def test_missing_file_in_a_warehouse_that_is_away_is_unavailable(tmp_path: Path) -> None:
    away = Warehouse(properties={"warehouse": f"file://{tmp_path}/mounted-elsewhere"})
    with pytest.raises(Unavailable, match="not there"):
        away.open_input(f"file://{tmp_path}/mounted-elsewhere/t/x.parquet")


def test_folder_that_can_not_be_written_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Unavailable):
        WAREHOUSE.create(f"{tmp_path}/file/x.parquet")


def test_empty_file_can_be_opened(tmp_path: Path) -> None:
    WAREHOUSE.write_bytes(f"{tmp_path}/empty", b"")
    assert WAREHOUSE.read_bytes(f"{tmp_path}/empty") == b""


def test_unknown_scheme_is_invalid() -> None:
    with pytest.raises(Invalid, match="gs://"):
        WAREHOUSE.exists("gs://bucket/x")


def test_warehouse_travels_to_a_worker() -> None:
    assert pickle.loads(pickle.dumps(WAREHOUSE)) == WAREHOUSE
