"""The table changed by another program, through pyiceberg: what keeps every record is adopted, the rest stops tiering."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, StringType

from engine.errors import Unavailable
from engine.offset_range import OffsetRange
from engine.table.verifier import Verifier
from tests.tiering.foreign_world import ForeignWorld


@pytest.fixture
def foreign(tmp_path: Path) -> ForeignWorld:
    return ForeignWorld(tmp_path)


def rewrite_in_no_order(table: Table) -> None:
    """As a rewrite sorted by another column would: all rows, in files of others, whose row groups hold any offsets."""
    rows = table.scan().to_arrow()
    with table.transaction() as transaction:
        transaction.set_properties({"write.parquet.row-group-limit": "70"})
        transaction.overwrite(rows.take(np.random.default_rng(5).permutation(rows.num_rows)))


def rewrite_one_file(table: Table) -> None:
    """The middle segment of one partition only: the others stay Floeberg's own."""
    wanted = "kafka_partition == 0 and kafka_offset >= 200 and kafka_offset < 400"
    table.overwrite(table.scan(wanted).to_arrow(), overwrite_filter=wanted)


def expire_all_but_the_newest(table: Table) -> None:
    current = table.metadata.current_snapshot_id
    ids = [snapshot.snapshot_id for snapshot in table.metadata.snapshots if snapshot.snapshot_id != current]
    with table.transaction():
        table.maintenance.expire_snapshots().by_ids(ids).commit()


def rewrite_and_expire(table: Table) -> None:
    rewrite_in_no_order(table)
    expire_all_but_the_newest(table.refresh())


def add_column(table: Table) -> None:
    with table.update_schema() as update:
        update.add_column("note_of_others", StringType())


def rename_and_widen_columns(table: Table) -> None:
    with table.update_schema() as update:
        update.rename_column("customer_id", "customer")
        update.rename_column("shipping.city", "town")
        update.rename_column("items.element.quantity", "pieces")


def change_columns_and_rewrite(table: Table) -> None:
    add_column(table)
    table.refresh()
    rename_and_widen_columns(table)
    table.refresh()
    rewrite_in_no_order(table)


def drop_value_column(table: Table) -> None:
    with table.update_schema() as update:
        update.delete_column("channel")


def set_properties(table: Table) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({"owner": "somebody", "write.parquet.compression-level": "9"})


@pytest.mark.parametrize(
    "change",
    [
        rewrite_in_no_order,
        rewrite_one_file,
        rewrite_and_expire,
        expire_all_but_the_newest,
        add_column,
        rename_and_widen_columns,
        change_columns_and_rewrite,
        drop_value_column,
        set_properties,
    ],
)
def test_change_that_keeps_every_record_is_adopted(foreign: ForeignWorld, change: Callable[[Table], None]) -> None:
    change(foreign.iceberg())
    foreign.check_goes_on()
