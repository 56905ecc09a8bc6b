"""The four kinds of error, named by what the caller should do about them."""

from __future__ import annotations

from typing import Self, TypeVar

_Error = TypeVar("_Error", bound="FloebergError")


class FloebergError(Exception):
    """An error with its coordinates and, for an operator, the next step.

    ``problem`` says what is wrong in one sentence; the keyword arguments say where (offsets are Kafka offsets,
    ``file`` is a path or URI) and ``next_step`` what a person can do. ``str()`` joins all of them.
    """

    kind = "unavailable"
    """What is to be done, in the one word that metrics and status use."""

    def __init__(
        self,
        problem: str,
        *,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        file: str | None = None,
        next_step: str | None = None,
    ) -> None:
        self.problem = problem
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.file = file
        self.next_step = next_step
        super().__init__(str(self))

    @property
    def where(self) -> str:
        """The coordinates as ``topic orders, partition 3, offset 17, file …``; empty when none is known."""
        named = (("topic", self.topic), ("partition", self.partition), ("offset", self.offset), ("file", self.file))
        return ", ".join(f"{name} {value}" for name, value in named if value is not None)

    def advised(self, next_step: str) -> Self:
        """This error with another next step."""
        return _rebuild(type(self), self.problem, {**self._fields, "next_step": next_step})

    def located(self, topic: str, partition: int) -> Self:
        """This error with the coordinates that it lacks: whoever catches it may know more than whoever raised it."""
        if self.topic is not None and self.partition is not None:
            return self
        missing = {
            "topic": topic if self.topic is None else self.topic,
            "partition": partition if self.partition is None else self.partition,
        }
        return _rebuild(type(self), self.problem, {**self._fields, **missing})

    @property
    def _fields(self) -> dict[str, object]:
        names = ("topic", "partition", "offset", "file", "next_step")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        where = f" ({self.where})" if self.where else ""
        step = f" Next: {self.next_step}" if self.next_step else ""
        return f"{self.problem}{where}.{step}"

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions cross process boundaries (Spark workers); keyword-only arguments need help to be pickled.
        return _rebuild, (type(self), self.problem, self._fields)


def _rebuild(kind: type[_Error], problem: str, fields: dict[str, object]) -> _Error:
    return kind(problem, **fields)  # type: ignore[arg-type]  # the fields are those of __init__


class Unavailable(FloebergError):
    """Something that is needed does not answer now: try again later; nothing was changed."""


class Corrupt(FloebergError):
    """Bytes are not what they claim to be: stop this partition, keep the bytes, tell the operator."""

    kind = "corrupt"


class Invalid(FloebergError):
    """The caller's input is wrong: the message says what, where and what would be right."""

    kind = "invalid"


class CommitUnknown(FloebergError):
    """A commit may or may not have landed: read the ledger before doing anything else."""

    kind = "commit_unknown"
