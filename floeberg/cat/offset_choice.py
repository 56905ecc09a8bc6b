"""From which offset to which: what is asked for on the command line, as kcat's ``-o`` says it."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from engine.errors import Invalid

_SPELLINGS = "beginning, end, an offset, -N (the last N offsets), s@TIME or e@TIME"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetChoice:
    """The start as an offset, so many offsets before the end, or a time; the end as an offset or a time, both
    exclusive. Nothing given: all there is. Times in milliseconds since the epoch.
    """

    start: int | None = None
    before_end: int | None = None
    start_ms: int | None = None
    end: int | None = None
    end_ms: int | None = None

    def __post_init__(self) -> None:
        if sum(given is not None for given in (self.start, self.before_end, self.start_ms)) > 1:
            raise Invalid("There are two starts", next_step="give one of --from, --tail and -o")
        if self.end is not None and self.end_ms is not None:
            raise Invalid("There are two ends", next_step="give one of --to and -o e@…")

    @classmethod
    def of(cls, texts: Sequence[str], *, start: int | None = None, end: int | None = None) -> Self:
        """``texts`` of ``-o``; ``start`` and ``end`` were given otherwise. Raises Invalid."""
        found: dict[str, int] = {}
        for text in texts:
            name, value = _read(text)
            if found.setdefault(name, value) != value:
                raise Invalid(f"-o {text} comes after another one that it contradicts", next_step="leave one out")
        if start is not None and "start" in found:
            raise Invalid("There are two starts", next_step="give one of --from and -o")
        given = {name: value for name, value in (("start", start), ("end", end)) if value is not None}
        return cls(**{**found, **given})


def _read(text: str) -> tuple[str, int]:
    if text == "beginning":
        return "start", 0
    if text == "end":
        return "before_end", 0
    if re.fullmatch(r"-?\d+", text):
        return ("before_end", -int(text)) if text.startswith("-") else ("start", int(text))
    kind, at, time = text.partition("@")
    if at and kind in {"s", "e"}:
        return "start_ms" if kind == "s" else "end_ms", _ms(time)
    raise Invalid(f"-o can't be {text!r}", next_step=f"there are {_SPELLINGS}")


def _ms(text: str) -> int:
    """Milliseconds as they are, or a date and time in ISO 8601, of UTC unless it says otherwise."""
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise Invalid(
            f"{text!r} is no time", next_step="write milliseconds since 1970 or 2024-01-31T12:00:00Z"
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return round(moment.timestamp() * 1000)
