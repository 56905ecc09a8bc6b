"""What a check of the set-up came to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from engine.errors import FloebergError


class Verdict(StrEnum):
    GOOD = "good"
    NOTE = "note"
    """Not wrong, but something a person should know."""
    WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """What one check found."""

    name: str
    verdict: Verdict
    message: str
    next_step: str | None = None


def good(name: str, message: str) -> CheckResult:
    return CheckResult(name=name, verdict=Verdict.GOOD, message=message)


def note(name: str, message: str, next_step: str | None = None) -> CheckResult:
    return CheckResult(name=name, verdict=Verdict.NOTE, message=message, next_step=next_step)


def guarded(name: str, check: Callable[[], CheckResult]) -> CheckResult:
    """The check's result; an error of ours becomes a wrong one."""
    try:
        return check()
    except FloebergError as error:
        where = f" ({error.where})" if error.where else ""
        message = f"{error.problem}{where}"
        return CheckResult(name=name, verdict=Verdict.WRONG, message=message, next_step=error.next_step)
