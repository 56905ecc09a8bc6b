"""A program of rounds whose third one ends it."""

from __future__ import annotations

import sys

from bench.round_program import answer_rounds


def measure(number: int) -> dict[str, int]:
    print("said by the way")
    return {"number": number} if number < 2 else sys.exit("nothing is left")


if __name__ == "__main__":
    answer_rounds(measure)
