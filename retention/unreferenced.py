"""The check without which no file of a table is deleted: every line of it is a reason of its own to keep the file.

``Unreferenced`` is made here alone, and deletions take nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, field

from engine.table.own_files import FileKind, OwnFiles
from engine.table.reachability import Hashes, NamedFiles, holds
from engine.table.topic_table import NEVER_SWEPT
from engine.warehouse.warehouse import StoredFile
from retention.sweep_planner import Due, Needed

OF_ONE_COMMIT = frozenset({FileKind.METADATA, FileKind.STATE, FileKind.SCHEMA})
"""Files that the commit names that they were made for, which asserts the snapshot it was decided on."""

NOT_OURS = "its content does not say that it is of a commit of Floeberg's"

_CHECKS_TOKEN = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreferenced:
    """A file that nothing names, and that nothing will name again. Only the check makes one."""

    file: StoredFile
    token: object = field(repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.token is not _CHECKS_TOKEN:
            raise TypeError("only the check of what is reachable makes an Unreferenced")

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("what is unreferenced now does not leave the process that found it so")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMoment:
    """The table as the catalog has it at this moment, and what else may need a file.

    ``live`` hashes of the names of the newest snapshot's files, read by the sealed bytes of its manifests for this
    moment alone; ``needed`` None where nothing is, as of a table that was dropped; ``swept`` and ``sequence_number``
    the table's; ``latest_swept`` the fence of its ``__latest`` table, None where it has none, and ``unlisted_since``
    the number of the state from which on none of the table's lists the file; ``is_own_state``: whether a table
    metadata file, by its path, is of a commit of Floeberg's; ``in_use``: paths that readers of this process have open.
    """

    own: OwnFiles
    named: NamedFiles
    live: Hashes
    needed: Needed | None
    swept: int
    sequence_number: int
    latest_swept: int | None = None
    unlisted_since: int = NEVER_SWEPT
    now_ms: int
    grace_ms: int
    in_use: Set[str]
    is_own_state: Callable[[str], bool]


def check(due: Due, at: TableMoment) -> Unreferenced | str:
    """The value that a deletion takes, or why the file stays."""
    reason = next(reasons_to_keep(due, at), None)
    return Unreferenced(file=due.file, token=_CHECKS_TOKEN) if reason is None else reason


def reasons_to_keep(due: Due, at: TableMoment) -> Iterator[str]:
    """None for a file that may go."""
    path, kind, seen = due.file.path, due.own.kind, due.seen
    if at.own.kind_of(path) != due.own:
        yield "it is none of Floeberg's"
    if at.named.is_named(path):
        yield "the table names it"
    if holds(at.live, path):
        yield "the newest snapshot names it"
    if at.needed is not None and at.needed.holds(due.own):
        yield "the table needs it without naming it"
    if not 0 <= seen.seen_ms <= at.now_ms - at.grace_ms:
        yield "its grace is not over"
    if kind is FileKind.DATA and at.swept < seen.sequence_number:
        yield "a commit may take it still"
    if kind is FileKind.DATA and at.latest_swept is not None and at.latest_swept < at.unlisted_since:
        yield "a commit of the __latest table may name it still"
    if kind in OF_ONE_COMMIT and at.sequence_number <= seen.sequence_number:
        yield "the commit that it was made for may still land: the table has had none since"
    if kind is FileKind.STATE and not at.is_own_state(path):
        yield NOT_OURS
    if path in at.in_use:
        yield "a reader has it open"
