"""The port through which work is done, in this process or in Spark's workers; and the reading back of written files.

They are read back from the warehouse, in a pass of its own, and proven before anybody commits them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

from engine.clock import thread_cpu_ms
from engine.errors import FloebergError, Unavailable
from engine.table.data_file import FileDescription
from engine.table.proof.verification import Verification, verify_file
from engine.table.proof.verifier import VerifiedFile, Verifier
from engine.table.topic_table import TableFacts

Key = TypeVar("Key")
Task = TypeVar("Task")
Answer = TypeVar("Answer")

Answered: TypeAlias = Answer | FloebergError
"""What became of a task: its result, or the error that is its own."""


class Workers(Protocol):
    """Safe to use from several threads."""

    def start(self) -> None:
        """Get ready now rather than with the first task. Raises Unavailable."""

    def stop(self) -> None:
        """End what was started; work under way fails."""

    def run(self, work: Callable[[Task], Answer], tasks: Mapping[Key, Task]) -> Iterator[tuple[Key, Answered[Answer]]]:
        """Call ``work``, a picklable function, with each task; one answer a task under its key, in any order.

        Nothing is done before the first answer is asked for. A task that fails, or ends its process, takes no other
        down: whatever it raises comes back as its error, Unavailable where it is not one of ours.
        """


def answers(
    work: Callable[[Task], Answer], tasks: Iterable[tuple[Key, Task]]
) -> Iterator[tuple[Key, Answered[Answer]]]:
    """A worker's loop, one task after the other: an error that nobody foresaw is its task's, not the job's."""
    for key, task in tasks:
        answer: Answered[Answer]
        try:
            answer = work(task)
        except FloebergError as error:
            answer = error
        except Exception as error:  # noqa: BLE001 - the outermost guard of the worker's loop
            answer = Unavailable(
                f"a task ended with an error that is not one of ours: {error!r}",
                next_step="it is tried again; if it stays, report it with this message.",
            )
        yield key, answer


class InProcessWorkers:
    """One task after the other in this process: for tests, benchmarks and a single run without a JVM."""

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def run(self, work: Callable[[Task], Answer], tasks: Mapping[Key, Task]) -> Iterator[tuple[Key, Answered[Answer]]]:
        return answers(work, tasks.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBackTask:
    """Read ``file`` back from the warehouse and say what is truly in it."""

    table: TableFacts
    file: FileDescription
    is_suspect: bool = False
    """Its like may have ended a process."""


def read_back(task: ReadBackTask) -> Verification:
    """Evidence, which proves nothing until the verifier has compared it with the log's digest. Raises as
    ``verify_file``."""
    return verify_file(task.file.path, task.table)


def timed_read_back(task: ReadBackTask) -> tuple[Verification, int]:
    """As ``read_back``, with the CPU time that it took, in milliseconds."""
    began_ms = thread_cpu_ms()
    return read_back(task), thread_cpu_ms() - began_ms


def proof_of(verifier: Verifier, task: ReadBackTask, found: Answered[Verification]) -> Answered[VerifiedFile]:
    """The proof of a file by what was ``found`` in it, or why there is none."""
    try:
        return found if isinstance(found, FloebergError) else verifier.accept(task.file, found)
    except FloebergError as error:
        return error
