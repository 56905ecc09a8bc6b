"""The desk: answers when they are quick, no long wait when they are not, one question to a source that is away."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from engine.backoff import Backoff
from engine.errors import Invalid, Unavailable
from engine.schemas import desk as schema_desk
from engine.schemas.desk import (
    ERROR_KEPT_MS,
    WAIT_WINDOW_MS,
    SchemaDesk,
)
from engine.schemas.http import NoAnswer
from tests.engine.schemas.patient_clock import PatientClock

LONG_S = 90.0


class CountingCondition(threading.Condition):
    """Counts the waits of the thread that made it."""

    def __init__(self) -> None:
        super().__init__()
        self.owner = threading.get_ident()
        self.waits = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.waits += threading.get_ident() == self.owner
        return super().wait(timeout)


class Source:
    """Answers with the key; ``held`` keeps it from answering, ``error`` is what it raises instead."""

    def __init__(self) -> None:
        self.asked: list[object] = []
        self.free = threading.Event()
        self.free.set()
        self.error: Exception | None = None
        self.counted = threading.Condition()

    def question(self, key: object) -> Callable[[], object]:
        def ask() -> object:
            with self.counted:
                self.asked.append(key)
                self.counted.notify_all()
            assert self.free.wait(LONG_S)
            if self.error is not None:
                raise self.error
            return key

        return ask

    def wait_for(self, count: int) -> None:
        with self.counted:
            assert self.counted.wait_for(lambda: len(self.asked) >= count, LONG_S)


@pytest.fixture
def clock() -> PatientClock:
    return PatientClock()


@pytest.fixture
def source() -> Iterator[Source]:
    source = Source()
    yield source
    source.free.set()


@pytest.fixture
def desk(clock: PatientClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[SchemaDesk]:
    monkeypatch.setattr(schema_desk, "WAIT_MS", 60_000)
    monkeypatch.setattr(schema_desk, "WAIT_WINDOW_MS", 120_000)
    desk = SchemaDesk("the registry", clock)
    yield desk
    desk.close()


def ask(desk: SchemaDesk, source: Source, key: object, *, kept_ms: int | None = None) -> object:
    return desk.ask(str(key), source.question(key), kept_ms=kept_ms)


def answer_of(desk: SchemaDesk, source: Source, key: object) -> object:
    """The answer, come for as often as it takes."""
    done = threading.Event()
    for _ in range(int(LONG_S / 0.01)):
        try:
            return ask(desk, source, key)
        except Unavailable:
            done.wait(0.01)
    raise AssertionError(f"{key} is not answered")


def test_answer_is_waited_for_kept_and_asked_for_once(desk: SchemaDesk, source: Source) -> None:
    assert [ask(desk, source, 1), ask(desk, source, 2), ask(desk, source, 1)] == [1, 2, 1]
    assert source.asked == [1, 2]


def test_answer_is_asked_for_again_when_its_time_is_over(desk: SchemaDesk, source: Source, clock: PatientClock) -> None:
    ask(desk, source, 1, kept_ms=10_000)
    clock.ahead_ms += 9_000
    ask(desk, source, 1, kept_ms=10_000)
    assert source.asked == [1]
    clock.ahead_ms += 1_000
    ask(desk, source, 1, kept_ms=10_000)
    assert source.asked == [1, 1]


def test_who_asks_never_waits_long_and_gets_the_answer_later(
    desk: SchemaDesk, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_desk, "WAIT_MS", 20)
    changed = desk._changed = CountingCondition()
    source.free.clear()
    for key in range(100):
        with pytest.raises(Unavailable, match="the registry has not answered yet"):
            ask(desk, source, key)
    # One, and another where it ended a moment early; had each question waited, a hundred.
    assert 1 <= changed.waits <= 5
    source.free.set()
    assert [answer_of(desk, source, key) for key in range(100)] == list(range(100))
    assert sorted(source.asked, key=str) == sorted(range(100), key=str)


def test_waiting_begins_anew_with_the_next_window(
    desk: SchemaDesk, source: Source, clock: PatientClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_desk, "WAIT_MS", 20)
    source.free.clear()
    with pytest.raises(Unavailable):
        ask(desk, source, 1)
    monkeypatch.setattr(schema_desk, "WAIT_MS", 60_000)
    clock.ahead_ms += max(WAIT_WINDOW_MS, 120_000)
    threading.Timer(0.05, source.free.set).start()
    assert ask(desk, source, 1) == 1
    assert source.asked == [1]


def test_source_that_is_away_is_asked_one_question_ever_less_often_whatever_is_wanted(
    desk: SchemaDesk, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = Backoff(first_ms=1, longest_ms=8)
    monkeypatch.setattr(schema_desk, "PAUSES", pauses)
    source.error = NoAnswer("connection refused")
    for count in range(1, 9):
        for key in range(50):
            with pytest.raises(NoAnswer, match="refused"):
                ask(desk, source, key)
        source.wait_for(count)
    assert set(source.asked) == {0}
    assert pauses.wait_ms(desk._pauses) == 8


def test_source_that_comes_back_is_found_out_by_nobody_asking(
    desk: SchemaDesk, source: Source, clock: PatientClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_desk, "PAUSES", Backoff(first_ms=1, longest_ms=30_000))
    source.error = NoAnswer("connection refused", file="http://registry", next_step="look at it")
    with pytest.raises(NoAnswer):
        ask(desk, source, 1)
    clock.ahead_ms += 1_500
    health = desk.health()
    assert str(health.problem) == "connection refused (file http://registry). Next: look at it"
    assert 1_500 <= (health.away_ms or 0) < 60_000
    source.error = None
    pause = threading.Event()
    while desk.health().away_ms is not None:
        pause.wait(0.005)
    count = len(source.asked)
    assert [ask(desk, source, 1), ask(desk, source, 2)] == [1, 2]
    assert source.asked[count:] == [2]
    assert desk.health().failures == count - 1


def test_question_that_fails_alone_keeps_no_other_from_being_asked(
    desk: SchemaDesk, source: Source, clock: PatientClock
) -> None:
    for error in (Invalid("no such schema"), Unavailable("status 500")):
        source.error = error
        for _ in range(3):
            with pytest.raises(type(error), match=error.problem):
                ask(desk, source, error.problem)
        source.error = None
        assert ask(desk, source, f"beside {error.problem}") == f"beside {error.problem}"
        assert desk.health().away_ms is None
    assert len(source.asked) == 4
    clock.ahead_ms += ERROR_KEPT_MS
    assert ask(desk, source, "no such schema") == "no such schema"


def test_error_that_nobody_foresaw_is_unavailable_and_the_desk_goes_on(desk: SchemaDesk, source: Source) -> None:
    source.error = ZeroDivisionError("a bug")
    with pytest.raises(Unavailable, match="a bug"):
        ask(desk, source, 1)
    source.error = None
    assert ask(desk, source, 2) == 2


def test_questions_that_wait_are_bounded(desk: SchemaDesk, source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_desk, "WAIT_MS", 0)
    monkeypatch.setattr(schema_desk, "MAX_QUESTIONS", 3)
    source.free.clear()
    with pytest.raises(Unavailable):
        ask(desk, source, "asked now")
    source.wait_for(1)
    for key in range(2):
        with pytest.raises(Unavailable, match="not answered yet"):
            ask(desk, source, key)
    with pytest.raises(Unavailable, match="3 questions wait"):
        ask(desk, source, 3)


def test_closed_desk_asks_nothing_and_ends_who_waits(desk: SchemaDesk, source: Source) -> None:
    source.free.clear()
    ended: list[Exception] = []

    def wait() -> None:
        try:
            ask(desk, source, 1)
        except Unavailable as error:
            ended.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    source.wait_for(1)
    desk.close()
    thread.join(LONG_S)
    assert len(ended) == 1
    with pytest.raises(Unavailable, match="asked no more"):
        ask(desk, source, 2)
    assert source.asked == [1]
