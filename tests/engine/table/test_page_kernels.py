from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.table import page_bounds_kernels as bounds
from engine.table import page_dictionary_kernels as dictionaries
from engine.table import page_value_kernels as pages
from engine.table.page_bit_packing import ROOM
from tests.engine.table.page_twins import dictionary_of, read_differences, read_hybrid

pytestmark = pytest.mark.kernels

NO_LEVELS = (np.empty(0, np.uint8), np.zeros(64, np.int64))
ALL = np.empty(0, np.int64)
EDGES = st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31), 7, 8])
WIDE_EDGES = st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63), 2**31, 255])
STRINGS = st.lists(
    st.one_of(st.binary(max_size=40), st.sampled_from([b"", b"a", b"12345678", b"123456789", b"\0", b"\0\0"])),
    max_size=200,
)


def spans(values: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.concatenate([[0], np.cumsum([len(value) for value in values])]).astype(np.int64)
    return offsets, np.frombuffer(b"".join(values) + bytes(8), np.uint8)


@given(levels=st.lists(st.one_of(st.integers(0, 3), st.just(2)), min_size=1, max_size=300), runs=st.integers(1, 20))
@settings(max_examples=40, deadline=None)
def test_levels_come_back_from_runs_and_groups(levels: list[int], runs: int) -> None:
    values = np.repeat(np.array(levels, np.uint8), runs)
    out, at = np.empty(4 * len(values) + 2 * ROOM, np.uint8), np.empty(2, np.int64)
    padded = np.append(values, np.zeros(8, np.uint8))
    entry_at = np.array([0, len(values)])
    pages.encode_levels(np.minimum(padded, 1), 1, padded, 0, 3, entry_at, out, at)
    data = out[: at[1]].tobytes()
    (size,) = struct.unpack_from("<i", data)
    assert read_hybrid(data[: 4 + size], 4, len(values), 1) == (np.minimum(values, 1).tolist(), 4 + size)
    assert read_hybrid(data, 8 + size, len(values), 2) == (values.tolist(), len(data))


@given(index=st.lists(st.integers(0, 2**17), min_size=1, max_size=200), runs=st.integers(1, 12))
@settings(max_examples=40, deadline=None)
def test_indexes_of_each_page_are_as_wide_as_their_largest(index: list[int], runs: int) -> None:
    values = np.repeat(np.array(index, np.int32), runs)
    middle = len(values) // 2
    out, at = np.empty(5 * len(values) + 4 * ROOM, np.uint8), np.empty(3, np.int64)
    pages.encode_indexes(*NO_LEVELS, values, np.array([0, middle, len(values)]), out, at)
    for page, part in enumerate((values[:middle], values[middle:])):
        data = out[at[page] : at[page + 1]].tobytes()
        assert data[0] == max(int(part.max(initial=0)).bit_length(), 1)
        assert read_hybrid(data, 1, len(part), data[0]) == (part.tolist(), len(data))


@given(values=st.lists(st.one_of(EDGES, st.integers(-(2**31), 2**31 - 1)), max_size=300))
@settings(max_examples=40, deadline=None)
def test_differences_of_32_bits_wrap(values: list[int]) -> None:
    out, at = np.empty(8 * len(values) + 1024, np.uint8), np.empty(2, np.int64)
    pages.encode_delta_binary(*NO_LEVELS, np.array(values, np.int32), np.array([0, len(values)]), out, at)
    assert read_differences(out[: at[1]].tobytes(), 0, 32) == (values, at[1])


@given(values=st.lists(st.one_of(WIDE_EDGES, st.integers(-(2**63), 2**63 - 1)), max_size=600))
@settings(max_examples=40, deadline=None)
def test_differences_of_64_bits_wrap(values: list[int]) -> None:
    out, at = np.empty(16 * len(values) + 1024, np.uint8), np.empty(2, np.int64)
    pages.encode_delta_binary(*NO_LEVELS, np.array(values, np.int64), np.array([0, len(values)]), out, at)
    assert read_differences(out[: at[1]].tobytes(), 0, 64) == (values, at[1])


@given(values=STRINGS)
@settings(max_examples=40, deadline=None)
def test_strings_come_back_from_what_they_share(values: list[bytes]) -> None:
    offsets, data = spans(values)
    value_at = np.array([0, len(values)])
    out, at = np.empty(len(data) + 16 * len(values) + 1024, np.uint8), np.empty(2, np.int64)
    pages.encode_delta_strings(*NO_LEVELS, offsets, data, value_at, out, at)
    page = out[: at[1]].tobytes()
    shared, place = read_differences(page, 0, 32)
    sizes, place = read_differences(page, place, 32)
    found: list[bytes] = []
    for prefix, size in zip(shared, sizes, strict=True):
        found.append((found[-1][:prefix] if found else b"") + page[place : place + size])
        place += size
    assert found == values
    pages.encode_delta_length(*NO_LEVELS, offsets, data, value_at, out, at)
    page = out[: at[1]].tobytes()
    sizes, place = read_differences(page, 0, 32)
    assert (sizes, page[place:]) == ([len(value) for value in values], b"".join(values))


@given(values=STRINGS, picked=st.booleans())
@settings(max_examples=40, deadline=None)
def test_string_dictionary_numbers_entries_as_they_appear(values: list[bytes], picked: bool) -> None:
    offsets, data = spans(values)
    positions = np.arange(len(values))[::-1].copy() if picked else ALL
    count = len(values)
    room = max(count, 1)
    table = np.zeros(4 * max(room, 256), np.uint32)
    hashes, words = np.empty(room, np.uint64), np.empty(room, np.uint64)
    entry_at, page = np.zeros(room + 1, np.int64), np.empty(len(data) + 4 * room + ROOM, np.uint8)
    index = np.empty(room, np.int32)
    state = np.array([0, 1024, 0, 0, 0])
    args = (table, hashes, words, entry_at, page, state, index, 0, 4, room)
    assert dictionaries.add_strings(offsets.astype(np.int32), data, 0, count, positions, *args) == 0
    entries, expected = dictionary_of(values[::-1] if picked and values else values)
    assert index[:count].tolist() == expected
    assert state[0] == len(entries)
    assert page[: state[2]].tobytes() == b"".join(struct.pack("<i", len(e)) + e for e in entries)  # type: ignore[arg-type, operator]
    assert state[4] == sum(map(len, values))
    low, high = np.empty(1, np.int64), np.empty(1, np.int64)
    flip = np.uint64(0)
    dictionaries.entry_bounds(index, np.array([0, count]), state[0], words, entry_at, page, 4, flip, low, high)
    if values:
        assert (entries[low[0]], entries[high[0]]) == (min(values), max(values))
        bounds.string_bounds(offsets, data, np.array([0, count]), flip, low, high)
        assert (values[low[0]], values[high[0]]) == (min(values), max(values))


@pytest.mark.parametrize("last", range(9))
@pytest.mark.parametrize("longest", [8, 16, 32, 60])
def test_strings_that_differ_in_one_byte_or_in_their_size_are_entries_of_their_own(longest: int, last: int) -> None:
    values = [b"", *(bytes(size) for size in range(1, longest + 1))]
    for size in range(1, longest + 1):
        values += [bytes(at) + b"\1" + bytes(size - at - 1) for at in range(size)]
    values = [*values, *values[::-1], b"z" * last]
    offsets = np.concatenate([[0], np.cumsum([len(value) for value in values])]).astype(np.int32)
    # Nothing behind the last string: it is read whole all the same.
    data = np.frombuffer(b"".join(values), np.uint8)
    room = len(values)
    page, entry_at = np.zeros(len(data) + 4 * room + ROOM, np.uint8), np.zeros(room + 1, np.int64)
    hashes, words, index = np.empty(room, np.uint64), np.empty(room, np.uint64), np.empty(room, np.int32)
    table, state = np.zeros(4 * room + 1024, np.uint32), np.array([0, 1024, 0, 0, 0])
    args = (table, hashes, words, entry_at, page, state, index, 0, 4, room)
    assert dictionaries.add_strings(offsets, data, 0, room, ALL, *args) == 0
    entries, expected = dictionary_of(values)
    assert index.tolist() == expected
    assert page[: state[2]].tobytes() == b"".join(struct.pack("<i", len(e)) + e for e in entries)
    state[:] = 0, 1024, 0, 0, 0
    short_data, short_page = (data[: offsets[-2] - 1], *args), (data, *args[:4], page[:-1], *args[5:])
    for given_data, *rest in (short_data, short_page):
        with pytest.raises(IndexError):
            dictionaries.add_strings(offsets, given_data, 0, room, ALL, *rest)


@given(values=st.lists(WIDE_EDGES | st.integers(0, 3000), min_size=1, max_size=2500))
@settings(max_examples=30, deadline=None)
def test_number_dictionary_numbers_entries_as_they_appear(values: list[int]) -> None:
    table, page = np.zeros(4 * max(len(values), 256), np.int32), np.empty(len(values), np.int64)
    index, state = np.empty(len(values), np.int32), np.array([0, 1024, 0, 0, 0])
    args = (ALL, table, page, state, index, 0, len(values))
    assert dictionaries.add_numbers(np.array(values, np.int64), 0, len(values), *args) == 0
    entries, expected = dictionary_of(values)
    assert (page[: state[0]].tolist(), index.tolist()) == (entries, expected)


def test_values_that_collide_are_given_up_before_they_cost() -> None:
    # A full table in which every slot is taken by another entry: each value walks over all of it.
    table, page = np.ones(4096, np.int32), np.zeros(2000, np.int64)
    state, index = np.array([1, 4096, 0, 0, 0]), np.empty(2000, np.int32)
    page[0] = -1
    args = (ALL, table, page, state, index, 0, 2000)
    assert dictionaries.add_numbers(np.arange(2000), 0, 2000, *args) == dictionaries.REFUSED


def test_read_outside_a_buffer_raises() -> None:
    offsets = np.array([0, 100], np.int64)
    out, at = np.empty(1000, np.uint8), np.empty(2, np.int64)
    with pytest.raises(IndexError):
        pages.encode_plain_bytes(*NO_LEVELS, offsets, np.zeros(10, np.uint8), np.array([0, 1]), out, at)
    with pytest.raises(IndexError):
        bounds.string_bounds(offsets, np.zeros(10, np.uint8), np.array([0, 1]), np.uint64(0), at[:1], at[1:])
