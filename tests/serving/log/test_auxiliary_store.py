"""Auxiliary states in a local warehouse: beside the table's folder, where no engine's clean-up comes."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.offset_range import OffsetRange
from serving.log.auxiliary_state import AuxiliaryState
from serving.log.auxiliary_store import AuxiliaryStore
from serving.log.backend import NoSuchSegment
from tests.engine.table.table_examples import ensure_table, open_writer

RANGE = OffsetRange(start=0, end=10)
STATE = AuxiliaryState(leader_epochs=b"0\n1\n0 0\n", producer_snapshot=b"snapshot")


def test_state_lies_beside_the_tables_folder(tmp_path: Path) -> None:
    table, store = ensure_table(open_writer(tmp_path)), AuxiliaryStore()
    store.put(table, 0, RANGE, STATE)
    assert store.get(table, 0, RANGE) == STATE
    assert list(store.ranges(table, 0)) == [RANGE]
    assert not [file.path for file in table.warehouse.list(table.location) if file.path.endswith(".aux")]
    (kept,) = table.warehouse.list(f"{table.location}-floeberg")
    assert kept.path.endswith(f"-floeberg/log_door/p=0/{0:020d}-{10:020d}.aux")


def test_state_of_an_earlier_version_below_the_tables_folder_is_read_listed_and_removed(tmp_path: Path) -> None:
    table, store = ensure_table(open_writer(tmp_path)), AuxiliaryStore()
    path = f"{table.location}/log_door/p=0/{0:020d}-{10:020d}.aux"
    table.warehouse.write_bytes(path, STATE.to_bytes())
    assert store.get(table, 0, RANGE) == STATE
    assert list(store.ranges(table, 0)) == [RANGE]
    store.delete(table, 0, RANGE)
    assert not table.warehouse.exists(path)
    with pytest.raises(NoSuchSegment):
        store.get(table, 0, RANGE)
