"""The warehouses there are, held to one suite; and what is true of a local one alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import Invalid, Unavailable
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


def test_unknown_scheme_is_invalid() -> None:
    with pytest.raises(Invalid, match="gs://"):
        Warehouse().exists("gs://bucket/x")
