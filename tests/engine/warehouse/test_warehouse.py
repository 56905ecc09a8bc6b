"""The warehouses there are, held to one suite; and what is true of a local one alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.durable_file import make_durable_folder
from engine.errors import Invalid, Unavailable
from engine.warehouse.object_requests import ObjectRequests
from engine.warehouse.warehouse import Warehouse
from tests.engine.warehouse.warehouse_suite import WarehouseSuite
from tests.support.s3_server import BUCKET, S3Server


class TestLocalWarehouse(WarehouseSuite):
    @pytest.fixture
    def warehouse(self) -> Warehouse:
        return Warehouse()

    @pytest.fixture(params=["file://", ""], ids=["uri", "path"])
    def root(self, tmp_path: Path, request: pytest.FixtureRequest) -> str:
        return f"{request.param}{tmp_path}"

    def test_crash_while_writing_leaves_only_a_temporary_name(self, warehouse: Warehouse, tmp_path: Path) -> None:
        warehouse.create(f"{tmp_path}/x.bin").write(b"half")  # the process dies here
        assert [path.name for path in tmp_path.iterdir()] == ["x.bin.writing"]

    def test_missing_file_in_a_warehouse_that_is_away_is_unavailable(self, tmp_path: Path) -> None:
        away = Warehouse(properties={"warehouse": f"file://{tmp_path}/mounted-elsewhere"})
        with pytest.raises(Unavailable, match="not there"):
            away.open_input(f"file://{tmp_path}/mounted-elsewhere/t/x.parquet")

    def test_folder_that_can_not_be_written_is_unavailable(self, warehouse: Warehouse, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(Unavailable):
            warehouse.create(f"{tmp_path}/file/x.parquet")

    def test_file_that_can_not_be_removed_is_told_and_the_rest_is_removed(
        self, warehouse: Warehouse, tmp_path: Path
    ) -> None:
        (tmp_path / "folder").mkdir()
        warehouse.write_bytes(f"{tmp_path}/x", b"1")
        hindered = warehouse.delete_batch([f"{tmp_path}/folder", f"{tmp_path}/x"])
        assert list(hindered) == [f"{tmp_path}/folder"]
        assert "IsADirectory" in hindered[f"{tmp_path}/folder"]
        assert not (tmp_path / "x").exists()

    def test_empty_folders_go_once_they_are_old(self, warehouse: Warehouse, tmp_path: Path) -> None:
        (tmp_path / "old" / "older").mkdir(parents=True)
        (tmp_path / "held").mkdir()
        warehouse.write_bytes(f"{tmp_path}/held/x", b"1")
        changed_ms = (tmp_path / "old").stat().st_mtime_ns // 1_000_000
        warehouse.remove_empty_folders(str(tmp_path), unchanged_since_ms=changed_ms - 1_000)
        assert (tmp_path / "old" / "older").exists()
        warehouse.remove_empty_folders(str(tmp_path), unchanged_since_ms=changed_ms + 60_000)
        assert [path.name for path in tmp_path.iterdir()] == ["held"]

    def test_folder_that_is_removed_right_before_a_file_is_begun_is_made_again(
        self, warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def made_and_removed(folder: Path) -> None:
            make_durable_folder(folder)
            monkeypatch.undo()
            folder.rmdir()

        monkeypatch.setattr("engine.warehouse.warehouse.make_durable_folder", made_and_removed)
        warehouse.write_bytes(f"{tmp_path}/p=1/x", b"1")
        assert warehouse.read_bytes(f"{tmp_path}/p=1/x") == b"1"


class TestObjectStoreWarehouse(WarehouseSuite):
    @pytest.fixture(scope="class")
    def s3(self) -> Iterator[S3Server]:
        with S3Server() as server:
            yield server

    @pytest.fixture
    def warehouse(self, s3: S3Server) -> Warehouse:
        return Warehouse(properties=s3.properties)

    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        return f"s3://{BUCKET}/{tmp_path.name}"


def test_listing_of_several_pages_is_whole_and_deleted_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.warehouse.object_requests.KEYS_A_REQUEST", batch := 10)
    with S3Server() as s3:
        warehouse = Warehouse(properties=s3.properties)
        keys = sorted(f"p={number % 3}/{number}" for number in range(25))
        for key in keys:
            warehouse.write_bytes(f"s3://{BUCKET}/t/{key}", b"")
        listed = [file.path for file in warehouse.list(f"s3://{BUCKET}/t")]
        assert listed == [f"s3://{BUCKET}/t/{key}" for key in keys]
        assert warehouse.delete_batch(listed[:batch]) == {}
        assert [file.path for file in warehouse.list(f"s3://{BUCKET}/t")] == listed[batch:]


def test_object_store_that_refuses_a_key_tells_which_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with S3Server() as s3:
        requests = ObjectRequests(s3.properties)
        refused = {"Errors": [{"Key": "b", "Code": "AccessDenied", "Message": "no"}]}
        monkeypatch.setattr(requests._client, "delete_objects", lambda **_: refused)
        assert requests.delete(BUCKET, ["a", "b"]) == {"b": "AccessDenied: no"}


def test_object_store_that_is_away_is_unavailable() -> None:
    with S3Server() as s3:
        gone = Warehouse(properties=s3.properties)
    for ask in (lambda: list(gone.list(f"s3://{BUCKET}/x")), lambda: gone.delete_batch([f"s3://{BUCKET}/x"])):
        with pytest.raises(Unavailable, match="does not answer"):
            ask()


def test_unknown_scheme_is_invalid() -> None:
    with pytest.raises(Invalid, match="gs://"):
        Warehouse().exists("gs://bucket/x")
