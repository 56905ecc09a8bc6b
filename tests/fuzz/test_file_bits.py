"""A few flipped bits in every region of a file; ``python -m tests.fuzz.file_bits --flips 1000`` flips many."""

from __future__ import annotations

from tests.fuzz.file_bits import Outcomes, run

FLIPS = 4


def test_every_flipped_bit_is_named_and_none_is_read_wrongly() -> None:
    outcomes = run(FLIPS, seed=7)
    assert len(outcomes) == 11
    for region, found in outcomes.items():
        assert found == Outcomes(flips=FLIPS, named=FLIPS, refused=FLIPS, read_wrongly=0), region
