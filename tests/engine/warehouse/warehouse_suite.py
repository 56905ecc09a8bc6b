"""What every warehouse must do. A subclass gives ``warehouse``, and ``root``, a path or URI with nothing below it."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys

import crc32c
import pytest

from engine.errors import Corrupt
from engine.warehouse.warehouse import Warehouse

_WRITE_HALF_AND_DIE = """
import os, pickle, signal, sys
new = pickle.load(sys.stdin.buffer).create(sys.argv[1])
new.write(b"half")
os.kill(os.getpid(), signal.SIGKILL)
"""


class WarehouseSuite:
    @pytest.fixture
    def warehouse(self) -> Warehouse:
        raise NotImplementedError

    @pytest.fixture
    def root(self) -> str:
        raise NotImplementedError

    def write_half_and_die(self, warehouse: Warehouse, path: str) -> None:
        """A process of its own begins a file and is killed; overridden where no other process reaches the warehouse."""
        command = [sys.executable, "-c", _WRITE_HALF_AND_DIE, path]
        died = subprocess.run(command, input=pickle.dumps(warehouse), timeout=60, check=False)
        assert died.returncode == -signal.SIGKILL

    def test_file_is_not_there_until_it_is_committed(self, warehouse: Warehouse, root: str) -> None:
        path = f"{root}/a/b/x.bin"
        with warehouse.create(path) as new:
            new.write(b"hello ")
            new.write(memoryview(b"world"))
            assert not warehouse.exists(path)
            new.commit()
        assert warehouse.read_bytes(path) == b"hello world"
        assert new.size_bytes == warehouse.size_bytes(path) == 11
        assert new.checksum == crc32c.crc32c(b"hello world")

    def test_file_that_is_not_committed_leaves_nothing(self, warehouse: Warehouse, root: str) -> None:
        with warehouse.create(f"{root}/x.bin") as new:
            new.write(b"half")
        assert list(warehouse.list(root)) == []

    def test_crash_while_writing_leaves_nothing_under_the_name(self, warehouse: Warehouse, root: str) -> None:
        self.write_half_and_die(warehouse, f"{root}/x.bin")
        assert not warehouse.exists(f"{root}/x.bin")

    def test_file_is_written_over_as_a_whole(self, warehouse: Warehouse, root: str) -> None:
        warehouse.write_bytes(f"{root}/x", b"a longer one")
        with warehouse.create(f"{root}/x") as new:
            new.write(b"short")
            assert warehouse.read_bytes(f"{root}/x") == b"a longer one"
            new.commit()
        assert warehouse.read_bytes(f"{root}/x") == b"short"

    def test_listing_shows_every_file_below_with_its_size(self, warehouse: Warehouse, root: str) -> None:
        warehouse.write_bytes(f"{root}/p=1/x", b"12")
        warehouse.write_bytes(f"{root}/p=2/y", b"123")
        listed = list(warehouse.list(root))
        assert sorted((f.path, f.size_bytes) for f in listed) == [(f"{root}/p=1/x", 2), (f"{root}/p=2/y", 3)]
        assert all(file.modified_ms > 1_600_000_000_000 for file in listed)
        assert [file.path for file in warehouse.list(f"{root}/p=1")] == [f"{root}/p=1/x"]
        assert list(warehouse.list(f"{root}/nothing")) == []

    def test_entries_are_the_names_right_in_a_folder(self, warehouse: Warehouse, root: str) -> None:
        warehouse.write_bytes(f"{root}/p=1/x", b"12")
        warehouse.write_bytes(f"{root}/p=2/y", b"123")
        warehouse.write_bytes(f"{root}/a", b"1")
        assert warehouse.entries(root) == ("a", "p=1", "p=2")
        assert warehouse.entries(f"{root}/p=1") == ("x",)
        assert warehouse.entries(f"{root}/nothing") == ()

    def test_checksum_is_that_of_a_files_bytes(self, warehouse: Warehouse, root: str) -> None:
        warehouse.write_bytes(f"{root}/x", b"123456789")
        assert warehouse.crc32c(f"{root}/x") == 0xE3069283

    def test_missing_file_is_corrupt_and_deleting_it_is_not_an_error(self, warehouse: Warehouse, root: str) -> None:
        warehouse.write_bytes(f"{root}/there", b"x")
        path = f"{root}/gone"
        for ask in (warehouse.open_input, warehouse.size_bytes, warehouse.read_bytes):
            with pytest.raises(Corrupt, match="missing"):
                ask(path)
        assert not warehouse.exists(path)
        warehouse.delete(path)

    def test_deleted_file_is_gone_and_its_neighbour_is_not(self, warehouse: Warehouse, root: str) -> None:
        warehouse.write_bytes(f"{root}/p/x", b"1")
        warehouse.write_bytes(f"{root}/p/xy", b"2")
        warehouse.delete(f"{root}/p/x")
        assert [file.path for file in warehouse.list(root)] == [f"{root}/p/xy"]

    def test_batch_with_a_file_that_is_gone_takes_the_rest(self, warehouse: Warehouse, root: str) -> None:
        for name in ("a b", "c+d", "e%20f", "g"):
            warehouse.write_bytes(f"{root}/p=1/{name}", b"1")
        assert warehouse.delete_batch([f"{root}/p=1/{name}" for name in ("a b", "gone", "c+d", "e%20f")]) == {}
        assert [file.path for file in warehouse.list(root)] == [f"{root}/p=1/g"]

    def test_empty_file_can_be_opened(self, warehouse: Warehouse, root: str) -> None:
        warehouse.write_bytes(f"{root}/empty", b"")
        assert warehouse.read_bytes(f"{root}/empty") == b""

    def test_any_range_of_a_file_can_be_read(self, warehouse: Warehouse, root: str) -> None:
        content = bytes(range(256)) * 64
        warehouse.write_bytes(f"{root}/x", content)
        with warehouse.open_input(f"{root}/x") as file:
            assert file.size() == len(content)
            assert bytes(file.read_at(10, 300)) == content[300:310]
            assert bytes(file.read_at(10, 0)) == content[:10]

    def test_warehouse_travels_to_a_worker(self, warehouse: Warehouse, root: str) -> None:
        warehouse.write_bytes(f"{root}/x", b"1")
        assert pickle.loads(pickle.dumps(warehouse)).read_bytes(f"{root}/x") == b"1"
