"""The auditor: compares what producers were told was written with what each door shows of it.

Three parts that know nothing of each other: what producers were told (``ProducersLog``), what a door showed (``Sight``,
made by tests/support/auditor_sights.py or by a simulation itself), and the comparison (``audit``), which is pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from engine.offset_range import OffsetRange

Place = tuple[str, int]
"""(topic, partition)"""

_SHOWN = 12
"""Findings written out in a failed test's message; there may be one a record."""


class Record(NamedTuple):
    """One record as its producer gave it. The timestamp must be given: nobody else's choice of it could be checked."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Kind(StrEnum):
    """What can be wrong."""

    LOST = "lost"  # a record that a producer was told is written is not shown
    DOUBLED = "doubled"  # an offset is shown more than once
    OUT_OF_ORDER = "out of order"  # shown behind a later one
    ALTERED = "altered"  # key, value, headers or timestamp differ
    INVENTED = "invented"  # shown, and no producer may have written it: aborted, or never sent, or off the range
    TORN = "torn"  # a transaction whose outcome nobody was told shows in part
    DELETED_UNPROVEN = "deleted unproven"  # the broker dropped what was not safe in the table


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong; ``door`` shows it."""

    kind: Kind
    door: str
    place: Place
    offset: int
    detail: str = ""

    def __str__(self) -> str:
        topic, partition = self.place
        return f"{self.kind} at offset {self.offset} of {topic}-{partition}, seen by the {self.door}: {self.detail}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What a door showed of one partition: everything within ``within``, in the order it came."""

    door: str
    place: Place
    within: OffsetRange
    records: Sequence[tuple[int, Record]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Offsets that a broker holds no more; ``problem`` says why they are not proven to be in the table, or is empty."""

    place: Place
    range: OffsetRange
    problem: str = ""


Delivery = Callable[[Any, Any], None]
"""What confluent-kafka calls with (error, message)."""


class ProducersLog:
    """What all producers of a test were told. For any thread: every change is one operation of a dict or a list.

    A producer that may send a record twice under two offsets (no idempotence, and retries) makes records that nobody
    was told of: give ``enable.idempotence`` or ``transactional.id``.
    """

    def __init__(self) -> None:
        self._written: defaultdict[Place, dict[int, Record]] = defaultdict(dict)
        self._withdrawn: defaultdict[Place, dict[int, Record]] = defaultdict(dict)
        self._undecided: list[dict[tuple[Place, int], Record]] = []
        self._possible: defaultdict[Place, list[Record]] = defaultdict(list)

    def delivery(self, place: Place, record: Record) -> Delivery:
        """The ``on_delivery`` of one record that is sent outside of transactions."""
        return _delivery(self, place, record)

    def acknowledged(self, place: Place, offset: int, record: Record) -> None:
        """The broker has told that ``record`` is written at ``offset``."""
        known = self._written[place].setdefault(offset, record)
        assert known == record, f"offset {offset} of {place} was given to two records: {known} and {record}"

    def unanswered(self, place: Place, record: Record) -> None:
        """Sent, and nobody knows what became of it: it may be there, once."""
        self._possible[place].append(record)

    def transaction(self) -> TransactionLog:
        """A transaction that begins."""
        return TransactionLog(self)

    def written(self, place: Place) -> Mapping[int, Record]:
        """Offset to record, in no order: what must be there."""
        return self._written[place]

    def withdrawn(self, place: Place) -> Mapping[int, Record]:
        """What must not be there: of transactions that were aborted."""
        return self._withdrawn[place]

    def possible(self, place: Place) -> Sequence[Record]:
        """What may be there, once each, at offsets nobody was told."""
        return self._possible[place]

    def undecided(self) -> Sequence[Mapping[tuple[Place, int], Record]]:
        """Transactions that may be there or not, each as a whole."""
        return self._undecided

    @property
    def record_count(self) -> int:
        """Records that must be there."""
        return sum(len(records) for records in self._written.values())


class TransactionLog:
    """One transaction: nothing it wrote counts before ``commit_transaction`` has answered."""

    def __init__(self, log: ProducersLog) -> None:
        self._log = log
        self._records: dict[tuple[Place, int], Record] = {}
        self._unanswered: list[tuple[Place, Record]] = []

    def delivery(self, place: Place, record: Record) -> Delivery:
        """The ``on_delivery`` of one record."""
        return _delivery(self, place, record)

    def acknowledged(self, place: Place, offset: int, record: Record) -> None:
        self._records[place, offset] = record

    def unanswered(self, place: Place, record: Record) -> None:
        self._unanswered.append((place, record))

    def committed(self) -> None:
        """``commit_transaction`` has answered."""
        assert not self._unanswered, f"a transaction was committed without {len(self._unanswered)} of its records"
        for (place, offset), record in self._records.items():
            self._log.acknowledged(place, offset, record)

    def aborted(self) -> None:
        """``abort_transaction`` has answered, or the producer was fenced before it asked for a commit."""
        for (place, offset), record in self._records.items():
            self._log._withdrawn[place][offset] = record

    def unknown(self) -> None:
        """A commit was asked for and never answered."""
        self._log._undecided.append(self._records)
        for place, record in self._unanswered:
            self._log.unanswered(place, record)


def _delivery(log: ProducersLog | TransactionLog, place: Place, record: Record) -> Delivery:
    def told(error: Any, message: Any) -> None:
        if error is None:
            assert (message.topic(), message.partition()) == place, f"a record for {place} went elsewhere"
            log.acknowledged(place, message.offset(), record)
        else:
            log.unanswered(place, record)

    return told


def audit(told: ProducersLog, sights: Iterable[Sight], dropped: Iterable[Dropped] = ()) -> list[Finding]:
    """Everything that is wrong; empty when what the doors show is what the producers were told."""
    seen = list(sights)
    undecided = {where: record for transaction in told.undecided() for where, record in transaction.items()}
    findings = [finding for sight in seen for finding in _against_producers(told, undecided, sight)]
    findings += _torn(told, seen)
    findings += _disagreements(told, seen)
    for item in dropped:
        if item.problem:
            findings.append(
                Finding(
                    kind=Kind.DELETED_UNPROVEN,
                    door="broker",
                    place=item.place,
                    offset=item.range.start,
                    detail=f"{item.range} is gone from the log directory: {item.problem}",
                )
            )
    return findings


def assert_clean(findings: Sequence[Finding]) -> None:
    """Fails with the number of each kind and the first findings."""
    counts = Counter(str(finding.kind) for finding in findings)
    assert not findings, "\n".join([f"the auditor found {dict(counts)}", *map(str, findings[:_SHOWN])])


def _against_producers(
    told: ProducersLog, undecided: Mapping[tuple[Place, int], Record], sight: Sight
) -> Iterator[Finding]:
    place, written = sight.place, told.written(sight.place)
    withdrawn, possible = told.withdrawn(place), Counter(told.possible(place))
    seen: set[int] = set()
    furthest = -1

    def finding(kind: Kind, offset: int, detail: str) -> Finding:
        return Finding(kind=kind, door=sight.door, place=place, offset=offset, detail=detail)

    for offset, record in sight.records:
        if offset not in sight.within:
            yield finding(Kind.INVENTED, offset, f"outside of {sight.within}")
            continue
        if offset in seen:
            yield finding(Kind.DOUBLED, offset, f"{record}")
            continue
        if offset < furthest:
            yield finding(Kind.OUT_OF_ORDER, offset, f"behind offset {furthest}")
        furthest = max(furthest, offset)
        seen.add(offset)
        expected = written.get(offset, undecided.get((place, offset)))
        if expected is None:
            if offset in withdrawn:
                yield finding(Kind.INVENTED, offset, f"of an aborted transaction: {record}")
            elif possible[record] > 0:
                possible[record] -= 1
            else:
                yield finding(Kind.INVENTED, offset, f"no producer wrote {record}")
        elif record != expected:
            yield finding(Kind.ALTERED, offset, f"{record} instead of {expected}")
    # Producers may go on meanwhile: a list of a dict is one operation, a walk over it is not.
    for offset in sorted(offset for offset in list(written) if offset in sight.within and offset not in seen):
        yield finding(Kind.LOST, offset, f"{written[offset]}")


def _torn(told: ProducersLog, sights: Sequence[Sight]) -> Iterator[Finding]:
    """Transactions of unknown outcome that a door shows in part of what it shows all of."""
    for door in sorted({sight.door for sight in sights}):
        by_place = {sight.place: sight for sight in sights if sight.door == door}
        offsets = {place: {offset for offset, _ in sight.records} for place, sight in by_place.items()}
        for transaction in told.undecided():
            looked_at = [(place, at) for place, at in transaction if place in by_place and at in by_place[place].within]
            missing = [(place, at) for place, at in looked_at if at not in offsets[place]]
            if missing and len(missing) < len(looked_at):
                place, offset = min(missing)
                detail = f"{len(missing)} of {len(looked_at)} records of a transaction are missing"
                yield Finding(kind=Kind.TORN, door=door, place=place, offset=offset, detail=detail)


def _disagreements(told: ProducersLog, sights: Sequence[Sight]) -> Iterator[Finding]:
    """Records of unknown outcome that one door shows and another does not, or otherwise."""
    contents = [(sight, dict(sight.records)) for sight in sights]
    for sight, content in contents:
        written = told.written(sight.place)
        for other, shown in contents:
            if other is sight or other.place != sight.place:
                continue
            for offset, record in shown.items():
                if offset not in sight.within or offset in written:
                    continue
                found = content.get(offset)
                if found != record:
                    kind = Kind.LOST if found is None else Kind.ALTERED
                    detail = f"the {other.door} shows {record} there, this door {found}"
                    yield Finding(kind=kind, door=sight.door, place=sight.place, offset=offset, detail=detail)
