"""Positions: text and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import Invalid
from streams.position import StreamPosition

NUMBERS = st.integers(0, 2**63 - 1)


@given(st.text(), st.text(), st.dictionaries(st.integers(0, 2**31 - 1), NUMBERS))
def test_position_is_its_text(topic: str, topic_id: str, offsets: dict[int, int]) -> None:
    position = StreamPosition(topic=topic, topic_id=topic_id, offsets=offsets)
    assert StreamPosition.from_text(position.to_text()) == position


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"topic": "t", "topic_id": "i"}',
        '{"topic": "t", "topic_id": "i", "offsets": {"0": -1}}',
        "null",
    ],
)
def test_text_that_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="position"):
        StreamPosition.from_text(text)
