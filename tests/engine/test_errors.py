from __future__ import annotations

import pickle

import pytest

from engine.errors import CommitUnknown, Corrupt, FloebergError, Invalid, Unavailable


@pytest.mark.parametrize("kind", [Unavailable, Corrupt, Invalid, CommitUnknown])
def test_message_names_problem_coordinates_and_next_step(kind: type[FloebergError]) -> None:
    error = kind("A batch's CRC is wrong", topic="orders", partition=3, offset=17, file="/x.log", next_step="look")
    assert str(error) == "A batch's CRC is wrong (topic orders, partition 3, offset 17, file /x.log). Next: look"
    assert str(kind("The broker is away", offset=0)) == "The broker is away (offset 0)."
    assert str(kind("The broker is away")) == "The broker is away."


def test_error_survives_the_way_between_processes() -> None:
    error = Corrupt("A batch's CRC is wrong", topic="orders", partition=0, offset=17, file="/x.log", next_step="look")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is Corrupt
    assert str(copy) == str(error)
    assert (copy.partition, copy.offset, copy.next_step) == (0, 17, "look")
