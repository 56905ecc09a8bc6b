"""Written files are read back from the warehouse, in a pass of its own, and proven before anybody commits them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from engine.errors import FloebergError
from engine.table.data_file import FileDescription
from engine.table.proof.verification import Verification, verify_file
from engine.table.proof.verifier import VerifiedFile, Verifier
from engine.table.topic_table import TableFacts
from workers.workers import Answered, Key, Workers


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBackTask:
    """Read ``file`` back from the warehouse and say what is truly in it."""

    table: TableFacts
    file: FileDescription


def read_back(task: ReadBackTask) -> Verification:
    """Evidence, which proves nothing until the verifier has compared it with the log's digest. Raises as
    ``verify_file``."""
    return verify_file(task.file.path, task.table)


def proven(
    workers: Workers, verifier: Verifier, tasks: Mapping[Key, ReadBackTask]
) -> Iterator[tuple[Key, Answered[VerifiedFile]]]:
    """The proof of each file, or why there is none: a job that looks at the warehouse and nothing else."""
    for key, found in workers.run(read_back, tasks):
        try:
            if isinstance(found, FloebergError):
                raise found
            yield key, verifier.accept(tasks[key].file, found)
        except FloebergError as error:
            yield key, error
