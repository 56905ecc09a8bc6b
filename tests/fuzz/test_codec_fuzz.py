"""A short run of the fuzzer; ``make fuzz SECONDS=600`` plays a long one."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.codec_fuzz import BLOCK_VALUES, Tally, attack, targets

BLOCKS = 3


@pytest.mark.kernels
def test_hostile_values_harm_neither_the_decoder_nor_their_neighbours() -> None:
    for target in targets():
        tally, chance = Tally(), random.Random(f"test {target.name}")
        for _ in range(BLOCKS):
            attack(target, chance, tally)
        assert tally.values == BLOCKS * BLOCK_VALUES
        assert tally.verdicts.get("undecodable", 0) > 0, target.name
