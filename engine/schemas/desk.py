"""Takes questions to a schema source that may be slow or away, so that who asks never waits for long.

A thread asks; whoever needs the answer waits a little for it, together with all others not more than ``WAIT_MS`` in
``WAIT_WINDOW_MS``, and comes again. While the source is known to be away nobody waits at all, and the thread repeats
the question that was not answered until it is: one request in a while, whatever the number of schemas and topics that
need one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog

from engine.backoff import Backoff
from engine.bounded_cache import BoundedCache
from engine.clock import Clock
from engine.errors import FloebergError, Unavailable
from engine.schemas.http import NoAnswer

WAIT_MS, WAIT_WINDOW_MS = 3_000, 10_000  # less than a third of a loop's time, and no other topic notices
PAUSES = Backoff(first_ms=1_000, longest_ms=30_000)  # between questions to a source that is away
ERROR_KEPT_MS = 5_000  # how long an error stands for its own question before that is asked again
MAX_QUESTIONS = 4096  # waiting for an answer: values that are no framed ones name any number of schemas
MAX_ANSWER_CHARACTERS = 16 << 20  # of all answers that are kept

T = TypeVar("T")
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceHealth:
    """``name`` of the source; ``away_ms`` since it stopped answering and the ``problem`` with it, None while it does;
    ``questions`` that were asked and ``failures`` among them, both since the start."""

    name: str
    away_ms: int | None
    problem: Unavailable | None
    questions: int
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """``good_until_ms`` None for good."""

    value: Any = None
    error: FloebergError | None = None
    good_until_ms: int | None = None


class SchemaDesk:
    """Safe to use from several threads. ``name`` tells the source in messages."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self._clock = clock
        self._changed = threading.Condition()
        self._waiting: OrderedDict[Hashable, Callable[[], _Answer]] = OrderedDict()
        self._answers: BoundedCache[Hashable, _Answer] = BoundedCache(
            capacity=MAX_ANSWER_CHARACTERS, cost_of=lambda answer: len(str(answer.value)) + 100
        )
        self._thread: threading.Thread | None = None
        self._closed = False
        self._window_start_ms = -WAIT_WINDOW_MS
        self._waited_ms = 0
        self._away_error: NoAnswer | None = None
        self._away_since_ms = 0
        self._pauses = 0
        self._questions = 0
        self._failures = 0

    def ask(self, key: Hashable, question: Callable[[], T], *, kept_ms: int | None) -> T:
        """What ``question`` answers, or answered under this key in the last ``kept_ms`` (None: ever).

        Raises what the question raised; Unavailable while there is no answer yet.
        """
        with self._changed:
            answer = self._answer(key)
            if answer is None:
                self._take(key, question, kept_ms)
                answer = self._await(key)
        if answer is None:
            raise self._away_error or Unavailable(f"{self.name} has not answered yet; it is being asked")
        if answer.error is not None:
            raise answer.error
        value: T = answer.value
        return value

    def health(self) -> SourceHealth:
        with self._changed:
            error = self._away_error
            return SourceHealth(
                name=self.name,
                away_ms=None if error is None else self._clock.monotonic_ms() - self._away_since_ms,
                problem=error,
                questions=self._questions,
                failures=self._failures,
            )

    def close(self) -> None:
        """Ask no more. A question that is being asked ends by itself."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _answer(self, key: Hashable) -> _Answer | None:
        answer = self._answers.get(key)
        if answer is None or answer.good_until_ms is None or self._clock.monotonic_ms() < answer.good_until_ms:
            return answer
        self._answers.remove(key)
        return None

    def _take(self, key: Hashable, question: Callable[[], Any], kept_ms: int | None) -> None:
        """Queue a question. Raises the error that keeps it from being asked now."""
        if self._closed:
            raise Unavailable(f"{self.name} is asked no more: the program ends")
        if self._away_error is not None:
            raise self._away_error
        if key in self._waiting:
            return
        if len(self._waiting) >= MAX_QUESTIONS:
            raise Unavailable(f"{MAX_QUESTIONS} questions wait for {self.name} already")

        def asked() -> _Answer:
            value = question()
            return _Answer(value=value, good_until_ms=None if kept_ms is None else self._clock.monotonic_ms() + kept_ms)

        self._waiting[key] = asked
        self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=f"asking {self.name}", daemon=True)
            self._thread.start()

    def _await(self, key: Hashable) -> _Answer | None:
        """The answer, when it comes in the time that is left for waiting."""
        now_ms = began_ms = self._clock.monotonic_ms()
        if now_ms - self._window_start_ms >= WAIT_WINDOW_MS:
            self._window_start_ms, self._waited_ms = now_ms, 0
        left_ms = WAIT_MS - self._waited_ms
        answer = self._answer(key)
        while answer is None and self._away_error is None and not self._closed and now_ms - began_ms < left_ms:
            self._changed.wait((left_ms - (now_ms - began_ms)) / 1000)
            now_ms = self._clock.monotonic_ms()
            answer = self._answer(key)
        self._waited_ms += now_ms - began_ms
        return answer

    def _work(self) -> None:
        while True:
            with self._changed:
                if self._away_error is not None:
                    self._changed.wait_for(lambda: self._closed, PAUSES.wait_ms(self._pauses) / 1000)
                    self._pauses += 1
                else:
                    self._changed.wait_for(lambda: self._closed or self._waiting)
                if self._closed:
                    return
                key, asked = next(iter(self._waiting.items()))
                self._questions += 1
            answer = self._asked(asked)
            with self._changed:
                self._note(key, answer)
                self._changed.notify_all()

    def _asked(self, asked: Callable[[], _Answer]) -> _Answer:
        try:
            return asked()
        except FloebergError as error:
            failed = error
        except Exception as error:  # noqa: BLE001 - the outermost guard of the thread that asks
            _log.exception("schema_question_ended_unforeseen", source=self.name)
            failed = Unavailable(f"{self.name} was asked, and that ended unforeseen: {error!r}")
        return _Answer(error=failed, good_until_ms=self._clock.monotonic_ms() + ERROR_KEPT_MS)

    def _note(self, key: Hashable, answer: _Answer) -> None:
        """Keep an answer, and what it says of the source."""
        now_ms = self._clock.monotonic_ms()
        self._failures += isinstance(answer.error, Unavailable)
        if isinstance(answer.error, NoAnswer):
            # Others that wait come again while they need it: one time-out for all of them.
            for other in [other for other in self._waiting if other != key]:
                del self._waiting[other]
            if self._away_error is None:
                self._away_since_ms, self._pauses = now_ms, 0
                _log.warning("schema_source_away", source=self.name, error=str(answer.error))
            self._away_error = answer.error
            return
        self._waiting.pop(key, None)
        self._answers.put(key, answer)
        if self._away_error is not None:
            self._away_error = None
            _log.info("schema_source_back", source=self.name, away_ms=now_ms - self._away_since_ms)
