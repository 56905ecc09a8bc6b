"""The ledger: which offsets of a partition are in the table, as a table property, and who may extend it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Any, Self

from engine.errors import Invalid
from engine.offset_range import OffsetRange
from engine.records.digest import EMPTY_DIGEST, RangeDigest

LEDGER_PREFIX = "floeberg.ledger."

LINES_KEPT = 1 << 16
"""Texts of properties that are parsed or hashed once, over all tables: a commit changes few of a table's thousands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneRecords:
    """Records that no file holds any more: those of a line's start up to offset ``end``, which had this ``digest``."""

    end: int
    digest: RangeDigest


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One partition's line: offsets ``start <= offset < end`` were stored, under which digest.

    ``epoch`` the newest leader epoch anybody committed under; ``digest`` of all records ever stored, but for erased
    ones, in offset order; ``log_start`` the stream's horizon: offsets below it are no longer served to consumers;
    ``table_start`` the table's: no file of the branch that SQL engines read begins below it; ``gone`` what lies below
    both, None while nothing does.
    """

    start: int
    end: int
    epoch: int
    digest: RangeDigest
    log_start: int
    table_start: int = 0
    gone: GoneRecords | None = None

    @property
    def range(self) -> OffsetRange:
        return OffsetRange(start=self.start, end=self.end)

    @property
    def held(self) -> OffsetRange:
        """The offsets whose records files hold."""
        return OffsetRange(start=self.start if self.gone is None else self.gone.end, end=self.end)

    @property
    def gone_digest(self) -> RangeDigest:
        """Of the records that no file holds any more."""
        return EMPTY_DIGEST if self.gone is None else self.gone.digest

    def with_log_start(self, offset: int) -> LedgerEntry:
        """The line with the stream's horizon at ``offset``: never moved back, nor beyond what was stored."""
        return replace(self, log_start=max(self.log_start, min(offset, self.end)))

    def to_json(self) -> str:
        value: dict[str, Any] = {
            "start": self.start,
            "end": self.end,
            "epoch": self.epoch,
            "digest": self.digest.to_text(),
            "log_start": self.log_start,
        }
        if self.table_start > self.start:
            value["table_start"] = self.table_start
        if self.gone is not None:
            value["gone"] = {"end": self.gone.end, "digest": self.gone.digest.to_text()}
        return json.dumps(value)

    @classmethod
    @lru_cache(maxsize=LINES_KEPT)
    def from_json(cls, text: str) -> Self:
        """Raises Invalid when the text is not what ``to_json`` writes."""
        try:
            value = json.loads(text)
            gone = value.get("gone")
            entry = cls(
                start=int(value["start"]),
                end=int(value["end"]),
                epoch=int(value["epoch"]),
                digest=RangeDigest.from_text(value["digest"]),
                log_start=int(value["log_start"]),
                table_start=int(value.get("table_start", 0)),
                gone=gone and GoneRecords(end=int(gone["end"]), digest=RangeDigest.from_text(gone["digest"])),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Invalid(f"a ledger entry is not the JSON that this program writes: {error!r}") from error
        if not 0 <= entry.start <= entry.end:
            raise Invalid(f"a ledger entry covers no range: start {entry.start}, end {entry.end}")
        if entry.gone is not None and not entry.start <= entry.gone.end <= entry.end:
            raise Invalid(f"a ledger entry of {entry.range} says that all is gone below {entry.gone.end}")
        return entry


class Outcome(Enum):
    """What becomes of a range or a file that a table is to get; of a range, by the ledger line its commit asserts."""

    COMMITTED = "committed"
    """It begins where the ledger ends and nobody newer has taken over: in the table once the commit succeeds."""
    ALREADY_THERE = "already there"
    """Every offset was in the table before; this append's file, if it has one, is not referenced."""
    GAP = "gap"
    """It begins after the ledger's end: offsets in between would be lost."""
    BEFORE_START = "before the start"
    """It begins before the first offset that the table ever held of the partition."""
    OVERLAP = "overlap"
    """A part of the range is in the table: plan again from the ledger's end."""
    FENCED = "fenced"
    """A newer leader epoch has committed: this process no longer owns the partition."""
    GONE = "gone"
    """The file to be replaced is not in the table any more: somebody else was first. Nothing refers to the new one."""


def decide(
    entry: LedgerEntry | None, *, added: OffsetRange, leader_epoch: int, skipped: OffsetRange | None = None
) -> Outcome:
    """Whether ``added`` may be appended to a partition whose ledger line is ``entry`` (None: nothing stored yet).

    ``skipped``: offsets right before the range that Kafka deleted before anybody could store them; they count as
    covered. The order of the tests matters: what is stored stays "already there" for a fenced owner too, so that an
    old owner's lost answer never turns into an error.
    """
    if added.is_empty:
        raise Invalid(f"a commit needs offsets, {added} has none")
    if entry is None:
        return Outcome.COMMITTED
    if entry.range.covers(added):
        return Outcome.ALREADY_THERE
    if leader_epoch < entry.epoch:
        return Outcome.FENCED
    if added.start == entry.end:
        return Outcome.COMMITTED
    if added.start > entry.end:
        bridged = skipped is not None and skipped.start <= entry.end and skipped.end == added.start
        return Outcome.COMMITTED if bridged else Outcome.GAP
    return Outcome.BEFORE_START if added.start < entry.start else Outcome.OVERLAP


def extend(entry: LedgerEntry | None, *, added: OffsetRange, leader_epoch: int, digest: RangeDigest) -> LedgerEntry:
    """The line after an accepted append."""
    if entry is None:
        return LedgerEntry(start=added.start, end=added.end, epoch=leader_epoch, digest=digest, log_start=added.start)
    return replace(entry, end=added.end, epoch=max(entry.epoch, leader_epoch), digest=entry.digest.then(digest))


def moved_log_starts(ledger: Mapping[int, LedgerEntry], log_starts: Mapping[int, int]) -> dict[int, LedgerEntry]:
    """The lines that ``log_starts`` change, as they are then."""
    moved = {number: ledger[number].with_log_start(at) for number, at in log_starts.items() if number in ledger}
    return {number: line for number, line in moved.items() if line != ledger[number]}


def parse_ledger(properties: Mapping[str, str]) -> dict[int, LedgerEntry]:
    """Every partition's line out of a table's properties. Raises Invalid for a malformed line."""
    ledger: dict[int, LedgerEntry] = {}
    for name, text in properties.items():
        if not name.startswith(LEDGER_PREFIX):
            continue
        partition = name.removeprefix(LEDGER_PREFIX)
        if not partition.isdecimal():
            raise Invalid(f"the table property {name} names no partition")
        ledger[int(partition)] = LedgerEntry.from_json(text)
    return ledger


def ranges_to_json(ranges: Iterable[OffsetRange]) -> str:
    """``[[start, end], …]`` in rising order; ranges that touch become one."""
    merged: list[list[int]] = []
    for item in sorted(ranges):
        if merged and item.start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], item.end)
        elif not item.is_empty:
            merged.append([item.start, item.end])
    return json.dumps(merged)


@lru_cache(maxsize=LINES_KEPT)
def ranges_from_json(text: str | None) -> tuple[OffsetRange, ...]:
    """The inverse of ``ranges_to_json``; None is no range. Raises Invalid for anything else."""
    if text is None:
        return ()
    try:
        return tuple(OffsetRange(start=int(start), end=int(end)) for start, end in json.loads(text))
    except (ValueError, TypeError) as error:
        raise Invalid(f"a list of ranges is not the JSON that this program writes: {error!r}") from error
