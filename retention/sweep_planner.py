"""What becomes of each file in a table's folders: pure. Values in, values out (docs/retention.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from engine.table.own_files import FileKind, OwnFile, OwnFiles
from engine.table.reachability import NamedFiles
from engine.table.topic_table import TopicTable
from engine.warehouse.warehouse import StoredFile
from retention.sightings import KEY_BYTES, Look, Sightings, key_of
from retention.sweep_limits import MOST_DUE, MOST_SIGHTINGS


class Reason(StrEnum):
    """Why a file is there. The first that is true."""

    LIVE = "live"
    """The newest snapshot names it, or the table's own state, or the log door needs it."""
    HISTORY = "history"
    """Only older snapshots, branches and tags name it, or the log of earlier states does."""
    ERASED = "erased"
    """Only snapshots from before an erasure name it, which go earlier than others."""
    GRACE = "grace"
    """It is Floeberg's, nothing names it, and it has not been so for long enough."""
    UNREFERENCED = "unreferenced"
    """It is Floeberg's, nothing has named it for the whole grace: it goes, once no commit can name it any more."""
    FOREIGN = "foreign"
    """Nothing names it, and it is not Floeberg's: it is never touched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """Of files."""

    files: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """``until_ms``: when its grace ends, None where it has none, or that is not known."""

    file: StoredFile
    reason: Reason
    until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A file whose grace is over; ``seen`` the look in which it was found unnamed, and has not changed since."""

    file: StoredFile
    own: OwnFile
    seen: Look


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """What the table needs beside what it names. ``log_starts`` by partition, of those whose log start is believed;
    ``schema_ids`` whose text it has."""

    log_starts: Mapping[int, int]
    schema_ids: Set[int]

    @classmethod
    def by(cls, view: TopicTable) -> Needed:
        ids = {*view.codec.schemas, *(() if view.key_codec is None else view.key_codec.schemas)}
        return cls(log_starts={number: view.horizon(number) for number in view.ledger}, schema_ids=ids)

    def holds(self, own: OwnFile) -> bool:
        """Whether a file is needed although no snapshot names it: a range's auxiliary state, while a follower may ask
        for it; a schema's file, while the table has no text of the schema, for a commit may be about to name it."""
        if own.kind is FileKind.AUXILIARY:
            assert own.range is not None, "an auxiliary state is of a range"
            return own.range.end > self.log_starts.get(own.partition or 0, 0)
        return own.kind is FileKind.SCHEMA and own.schema_id not in self.schema_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """``due``: what may go, at most ``MOST_DUE``. ``seen``: what was seen unnamed before and is so still, ``new`` the
    keys of what was seen so for the first time. ``goes_next_ms``: when the next grace ends."""

    amounts: Mapping[Reason, Amount]
    due: tuple[Due, ...]
    seen: Sightings
    new: bytes
    goes_next_ms: int | None

    def sightings(self, look: Look) -> Sightings:
        """All of them, the new ones with the look that has just ended."""
        return Sightings([*self.seen.parts(), (look, self.new)])


def plan_sweep(
    files: Iterable[StoredFile],
    *,
    own: OwnFiles,
    named: NamedFiles,
    needed: Needed | None,
    seen: Sightings,
    now_ms: int,
    grace_ms: int,
    tell: Callable[[Verdict], object] = lambda _: None,
) -> SweepPlan:
    """Judge every listed file. ``needed`` None: nothing is. ``tell`` is called with each verdict, in order."""
    counts: Counter[Reason] = Counter()
    sizes: Counter[Reason] = Counter()
    due: list[Due] = []
    kept, new = np.zeros(len(seen), np.bool_), bytearray()
    ends: list[int] = []
    for file in files:
        kind, until_ms = own.kind_of(file.path), None
        if named.is_named(file.path):
            reason = Reason.ERASED if named.is_erased(file.path) else Reason.HISTORY
            reason = Reason.LIVE if named.is_live(file.path) else reason
        elif kind is None:
            reason = Reason.FOREIGN
        elif needed is not None and needed.holds(kind):
            reason = Reason.LIVE
        else:
            key = key_of(file, own.folders[0])
            place = seen.place_of(key)
            look = None if place is None else seen.look_at(place)
            # A look of a time to come was by a clock that has gone back since.
            if look is None or look.seen_ms > now_ms:
                look = None
                if len(seen) + len(new) // KEY_BYTES < MOST_SIGHTINGS:
                    new += key
            else:
                kept[place] = True
            until_ms = (now_ms if look is None else look.seen_ms) + grace_ms
            reason = Reason.GRACE if look is None or until_ms > now_ms else Reason.UNREFERENCED
            if reason is Reason.GRACE:
                ends = [min([until_ms, *ends])]
            elif look is not None and len(due) < MOST_DUE:
                due.append(Due(file=file, own=kind, seen=look))
        counts[reason] += 1
        sizes[reason] += file.size_bytes
        tell(Verdict(file=file, reason=reason, until_ms=until_ms))
    amounts = {reason: Amount(files=counts[reason], size_bytes=sizes[reason]) for reason in Reason}
    return SweepPlan(
        amounts=amounts,
        due=tuple(due),
        seen=seen.only(kept),
        new=bytes(new),
        goes_next_ms=min(ends, default=None),
    )
