from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.records import merged_records
from engine.records.merged_records import merged_pieces
from engine.records.records import NO_RECORDS
from tests.engine.kafka_log.batch_twin import Row, records_from, rows_of, rows_strategy


@settings(max_examples=150, deadline=None)
@given(rows=rows_strategy(max_size=40), data=st.data())
def test_rising_runs_are_put_together_in_pieces(rows: list[Row], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 5))
    run_of = data.draw(st.lists(st.integers(0, count - 1), min_size=len(rows), max_size=len(rows)))
    runs = [records_from([row for row, at in zip(rows, run_of, strict=True) if at == run]) for run in range(count)]
    cut = data.draw(st.integers(0, len(runs[0])))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merged_records, "PIECE_ROWS", data.draw(st.integers(1, 50)))
        pieces = list(merged_pieces([runs[0].slice(cut, len(runs[0])), *runs[1:]]))
    cut_off = {row.offset for row in rows_of([runs[0].slice(0, cut)])}
    assert rows_of(pieces) == [row for row in rows if row.offset not in cut_off]
    assert all(len(piece) for piece in pieces)


def test_no_records_make_no_pieces() -> None:
    assert list(merged_pieces([NO_RECORDS, NO_RECORDS])) == []


def test_piece_holds_the_bytes_of_its_own_strings_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merged_records, "PIECE_ROWS", 10)
    rows = [
        Row(offset=at, timestamp_ms=1, timestamp_type=0, leader_epoch=0, key=b"k", value=b"v" * 100, headers=())
        for at in range(40)
    ]
    pieces = list(merged_pieces([records_from(rows[::2]), records_from(rows[1::2])]))
    assert [len(piece) for piece in pieces] == [10] * 4
    assert [piece.value.data.nbytes for piece in pieces] == [1000] * 4
    assert np.concatenate([piece.offset for piece in pieces]).tolist() == list(range(40))
