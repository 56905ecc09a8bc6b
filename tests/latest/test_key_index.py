"""The index of keys: what is written together is there together, and what is damaged is begun again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.errors import Unavailable
from engine.topic_partition import TopicIdPartition
from latest.key_index import NOT_THERE, Folded, KeyIndex

ONE = TopicIdPartition(topic="orders", topic_id="A" * 22, partition=1)
NEXT = TopicIdPartition(topic="orders", topic_id="A" * 22, partition=2)


def write(index: KeyIndex, partition: TopicIdPartition, folded: int, newest: dict[bytes, int | None]) -> None:
    offsets = np.array([0 if offset is None else offset for offset in newest.values()], np.int64)
    is_shown = np.array([offset is not None for offset in newest.values()])
    index.write(partition, folded=Folded(end=folded, erased=7), keys=list(newest), offsets=offsets, is_shown=is_shown)


def test_keys_of_partitions_are_kept_apart_and_a_tombstone_has_no_entry(tmp_path: Path) -> None:
    index = KeyIndex(tmp_path)
    assert index.folded(ONE) is None
    write(index, ONE, 10, {b"": 0, b"a": 5, b"\xff" * 3000: 2**40})
    write(index, NEXT, 4, {b"a": 1})
    write(index, ONE, 12, {b"a": None, b"b": 11})
    assert index.newest(ONE, [b"a", b"b", b"", b"\xff" * 3000, b"c"]).tolist() == [NOT_THERE, 11, 0, 2**40, NOT_THERE]
    assert (index.folded(ONE), index.folded(NEXT)) == (Folded(end=12, erased=7), Folded(end=4, erased=7))
    assert index.newest(ONE, []).tolist() == []
    index.close()


def test_what_was_written_is_there_after_a_restart(tmp_path: Path) -> None:
    index = KeyIndex(tmp_path)
    write(index, ONE, 1, {b"a": 0})
    index.close()
    again = KeyIndex(tmp_path)
    assert (again.folded(ONE), again.newest(ONE, [b"a"]).tolist()) == (Folded(end=1, erased=7), [0])
    again.close()


def test_forgotten_partition_leaves_no_key_and_takes_no_other_along(tmp_path: Path) -> None:
    index = KeyIndex(tmp_path)
    write(index, ONE, 1, {b"a secret": 0})
    write(index, NEXT, 1, {b"a": 0})
    index.forget(ONE)
    assert (index.folded(ONE), index.newest(ONE, [b"a secret"]).tolist()) == (None, [NOT_THERE])
    assert (index.folded(NEXT), index.newest(NEXT, [b"a"]).tolist()) == (Folded(end=1, erased=7), [0])
    index.close()


def test_keys_whose_newest_record_left_the_table_are_let_go(tmp_path: Path) -> None:
    index = KeyIndex(tmp_path)
    write(index, ONE, 30_000, {b"%05d" % number: number for number in range(30_000)})
    write(index, NEXT, 4, {b"a": 1})
    assert index.prune(ONE, Folded(end=30_000, erased=7, pruned=29_998)) == 29_998
    assert index.folded(ONE) == Folded(end=30_000, erased=7, pruned=29_998)
    assert index.newest(ONE, [b"00000", b"29997", b"29998", b"29999"]).tolist() == [NOT_THERE] * 2 + [29_998, 29_999]
    assert index.newest(NEXT, [b"a"]).tolist() == [1]
    index.close()


def test_damaged_index_is_removed_and_begun_again(tmp_path: Path) -> None:
    index = KeyIndex(tmp_path)
    write(index, ONE, 1, {b"a": 0})
    index.close()
    for manifest in tmp_path.glob("MANIFEST-*"):
        manifest.write_bytes(b"no manifest at all")
    damaged = KeyIndex(tmp_path)
    with pytest.raises(Unavailable, match="index of keys"):
        damaged.folded(ONE)
    assert damaged.folded(ONE) is None
    write(damaged, ONE, 1, {b"a": 0})
    damaged.close()


def test_index_that_another_process_has_open_is_left_as_it_is(tmp_path: Path) -> None:
    index = KeyIndex(tmp_path)
    write(index, ONE, 1, {b"a": 0})
    other = KeyIndex(tmp_path)
    with pytest.raises(Unavailable, match="index of keys"):
        other.folded(ONE)
    assert index.folded(ONE) == Folded(end=1, erased=7)
    index.close()
    assert other.folded(ONE) == Folded(end=1, erased=7)
    other.close()
