"""One measured figure: its repetitions, and the one number that stands for them."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """``samples`` of one quantity in ``unit``. ``key`` is its name in ``build/bench.json`` and never changes meaning.

    ``goal`` says what it must reach, as text, where it has to: only where that does not depend on how fast the machine
    is. ``higher_is_better`` says which end is the best repetition.
    """

    key: str
    title: str
    unit: str
    samples: tuple[float, ...]
    higher_is_better: bool
    goal: str | None = None

    def __post_init__(self) -> None:
        assert self.samples, f"{self.key} was never measured"

    @property
    def best(self) -> float:
        """The repetition that other work on the machine disturbed least."""
        return max(self.samples) if self.higher_is_better else min(self.samples)

    @property
    def middle(self) -> float:
        return median(self.samples)


def ratio(key: str, title: str, of: Measurement, to: Measurement, *, goal: str | None) -> Measurement:
    """``of`` over ``to``, medians of the same run: what stays true on another machine. As good when high as ``of``."""
    return Measurement(
        key=key,
        title=title,
        unit="times",
        samples=(of.middle / to.middle,),
        higher_is_better=of.higher_is_better,
        goal=goal,
    )
