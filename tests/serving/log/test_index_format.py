from __future__ import annotations

import numpy as np
import pytest

from serving.log.index_format import offset_index_bytes, time_index_bytes


def test_offset_index_has_kafkas_bytes_with_positions_that_are_relative_offsets() -> None:
    assert offset_index_bytes(np.array([7, 258], np.int64)) == bytes.fromhex("00000007 00000007 00000102 00000102")


def test_time_index_has_kafkas_bytes() -> None:
    found = time_index_bytes(np.array([1, 258], np.int64), np.array([0, 9], np.int64))
    assert found == bytes.fromhex("0000000000000001 00000000 0000000000000102 00000009")


def test_no_entry_is_an_empty_index() -> None:
    nothing = np.empty(0, np.int64)
    assert offset_index_bytes(nothing) == time_index_bytes(nothing, nothing) == b""


@pytest.mark.parametrize("grid", [[0, 5], [5, 5], [6, 5], [2**31]])
def test_offset_index_that_would_mislead_the_broker_is_refused(grid: list[int]) -> None:
    with pytest.raises(AssertionError):
        offset_index_bytes(np.array(grid, np.int64))


@pytest.mark.parametrize(("timestamps", "offsets"), [([5, 5], [1, 2]), ([6, 5], [1, 2]), ([5, 6], [2, 1])])
def test_time_index_that_would_mislead_the_broker_is_refused(timestamps: list[int], offsets: list[int]) -> None:
    with pytest.raises(AssertionError):
        time_index_bytes(np.array(timestamps, np.int64), np.array(offsets, np.int64))
