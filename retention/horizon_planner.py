"""Which of a partition's oldest files its horizon passes, and why: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from engine.table.manifests import TableFile
from topics.retention_rule import Keep


class LeaveReason(StrEnum):
    """Why a file leaves."""

    AGE = "its newest record is older than is kept"
    SIZE = "the files after it hold as much as is kept"


class StayReason(StrEnum):
    """Why a file, and with it every later one, stays."""

    FOR_EVER = "nothing bounds what is kept"
    YOUNG = "its newest record is as young as is kept"
    FITS = "the files after it hold less than is kept"
    NO_TIME = "the newest time of its records is not known"
    FOREIGN = "another program wrote it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    file: TableFile
    reason: LeaveReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Staying:
    """The first file that stays; ``due_ms`` (since the epoch) when its age will make it leave, None where it won't."""

    file: TableFile
    reason: StayReason
    due_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonPlan:
    """``leaving`` in offset order, ``staying`` None where no file is left."""

    leaving: tuple[Leaving, ...] = ()
    staying: Staying | None = None

    @property
    def horizon(self) -> int:
        """The end of the last file that leaves; 0 where none does."""
        return self.leaving[-1].file.range.end if self.leaving else 0


def plan_horizon(files: Sequence[TableFile], keep: Keep, *, now_ms: int) -> HorizonPlan:
    """``files`` of one partition in offset order, ``now_ms`` since the epoch.

    Whole files leave, from the oldest on, and none after one that stays: as Kafka deletes segments.
    """
    left_bytes = sum(file.size_bytes for file in files)
    leaving: list[Leaving] = []
    for file in files:
        left_bytes -= file.size_bytes
        verdict = _verdict(file, keep, left_bytes=left_bytes, now_ms=now_ms)
        if isinstance(verdict, Staying):
            return HorizonPlan(leaving=tuple(leaving), staying=verdict)
        leaving.append(Leaving(file=file, reason=verdict))
    return HorizonPlan(leaving=tuple(leaving))


def _verdict(file: TableFile, keep: Keep, *, left_bytes: int, now_ms: int) -> LeaveReason | Staying:
    newest_ms = file.newest_timestamp_ms
    due_ms = None if keep.age_ms is None or newest_ms is None or file.parts else newest_ms + keep.age_ms
    if keep.is_for_ever:
        return Staying(file=file, reason=StayReason.FOR_EVER)
    if file.parts:
        return Staying(file=file, reason=StayReason.FOREIGN)
    if keep.size_bytes is not None and left_bytes >= keep.size_bytes:
        return LeaveReason.SIZE
    if due_ms is not None:
        return LeaveReason.AGE if due_ms < now_ms else Staying(file=file, reason=StayReason.YOUNG, due_ms=due_ms)
    return Staying(file=file, reason=StayReason.FITS if keep.age_ms is None else StayReason.NO_TIME)
