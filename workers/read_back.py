"""Written files are read back from the warehouse, in a pass of its own, and proven before anybody commits them."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import FloebergError
from engine.table.data_file import FileDescription
from engine.table.proof.verification import Verification, verify_file
from engine.table.proof.verifier import VerifiedFile, Verifier
from engine.table.topic_table import TableFacts
from workers.workers import Answered


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBackTask:
    """Read ``file`` back from the warehouse and say what is truly in it."""

    table: TableFacts
    file: FileDescription


def read_back(task: ReadBackTask) -> Verification:
    """Evidence, which proves nothing until the verifier has compared it with the log's digest. Raises as
    ``verify_file``."""
    return verify_file(task.file.path, task.table)


def proof_of(verifier: Verifier, task: ReadBackTask, found: Answered[Verification]) -> Answered[VerifiedFile]:
    """The proof of a file by what was ``found`` in it, or why there is none."""
    try:
        return found if isinstance(found, FloebergError) else verifier.accept(task.file, found)
    except FloebergError as error:
        return error
