from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import Corrupt
from serving.log.auxiliary_state import AuxiliaryState

STATE = AuxiliaryState(leader_epochs=b"0\n1\n5 0\n", producer_snapshot=b"\x01\x02\x03")


@given(st.binary(max_size=300), st.none() | st.binary(max_size=300))
def test_state_comes_back_as_it_was(leader_epochs: bytes, producer_snapshot: bytes | None) -> None:
    state = AuxiliaryState(leader_epochs=leader_epochs, producer_snapshot=producer_snapshot)
    assert AuxiliaryState.from_bytes(state.to_bytes()) == state


def test_bytes_are_those_of_the_table_in_the_docs() -> None:
    expected = b"FLAX\0\0\0\1\0\0\0\x08" + b"0\n1\n5 0\n" + b"\0\0\0\3\1\2\3"
    assert STATE.to_bytes()[:-4] == expected
    assert AuxiliaryState(leader_epochs=b"", producer_snapshot=None).to_bytes()[12:-4] == b"\xff\xff\xff\xff"


@pytest.mark.parametrize("at", range(len(STATE.to_bytes())))
def test_flipped_bit_is_corrupt(at: int) -> None:
    damaged = bytearray(STATE.to_bytes())
    damaged[at] ^= 0x10
    with pytest.raises(Corrupt):
        AuxiliaryState.from_bytes(bytes(damaged))


@pytest.mark.parametrize("size", range(len(STATE.to_bytes())))
def test_truncated_state_is_corrupt(size: int) -> None:
    with pytest.raises(Corrupt):
        AuxiliaryState.from_bytes(STATE.to_bytes()[:size])


@given(st.binary(max_size=60))
def test_garbage_under_a_right_crc_is_corrupt(garbage: bytes) -> None:
    import crc32c

    body = b"FLAX\0\0\0\1" + garbage + b"!"
    try:
        state = AuxiliaryState.from_bytes(body + crc32c.crc32c(body).to_bytes(4, "big"))
    except Corrupt:
        return
    assert state.to_bytes()[:-4] == body
