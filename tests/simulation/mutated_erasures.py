"""Wrong ways to erase: what docs/erasure.md forbids."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

from engine.records.digest import EMPTY_DIGEST
from engine.table import history
from engine.table.commit import replacement
from engine.table.commit.erasure import EraseRecords
from engine.table.commit.replacement import FileReplacement, ReplaceDataFiles
from engine.table.erased import ErasedRecords, Erasure
from engine.table.ledger import Outcome
from engine.table.manifests import SnapshotFiles
from engine.table.proof.kept_rows import kept_rows
from engine.table.proof.verifier import VERIFIERS_TOKEN, VerifiedErasure, VerifiedFile, Verifier
from engine.table.topic_table import TopicTable
from retention.erasure_finding import Finder, Found


def unproven_file() -> AbstractContextManager[Any]:
    """Neither is the new file read back, nor the old one compared with it."""
    right = Verifier.accept

    def accept(self: Verifier, description: Any, found: Any) -> VerifiedFile:
        if found is None:
            return VerifiedFile(description=description, token=VERIFIERS_TOKEN)
        return right(self, description, found)

    def accept_erasure(self: Verifier, table: Any, old: Any, offsets: Any, new: Any) -> VerifiedErasure:
        after = EMPTY_DIGEST if new is None else new.description.digest
        before = kept_rows(table, old, offsets).before
        return VerifiedErasure(old=old, new=new, offsets=offsets, before=before, after=after, token=VERIFIERS_TOKEN)

    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch("retention.erasure.verify_file", return_value=None))
    stack.enter_context(mock.patch.object(Verifier, "accept", accept))
    stack.enter_context(mock.patch.object(Verifier, "accept_erasure", accept_erasure))
    return stack


def branch_forgotten() -> AbstractContextManager[Any]:
    """What only the stream's branch lists is not looked through."""
    right = Finder.files
    return mock.patch.object(Finder, "files", lambda self, table: replace(right(self, table), stream=()))


def one_look() -> AbstractContextManager[Any]:
    """Nobody looks at what others made of the files meanwhile."""
    right, looked = Finder.look, set[Finder]()

    def look(self: Finder, table: TopicTable) -> Found:
        if any(self is one for one in looked):
            return Found()
        looked.add(self)
        return right(self, table)

    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(Finder, "__hash__", object.__hash__))
    stack.enter_context(mock.patch.object(Finder, "look", look))
    return stack


def merge_of_before_takes_its_range() -> AbstractContextManager[Any]:
    """A merge takes the place of whatever lies in its range, with the records that it read."""
    right = ReplaceDataFiles._update

    def decide(
        files: SnapshotFiles, replacements: Sequence[FileReplacement], adopted: Any
    ) -> tuple[tuple[Outcome, ...], tuple[FileReplacement, ...]]:
        return tuple(Outcome.COMMITTED for _ in replacements), tuple(replacements)

    def update(
        self: ReplaceDataFiles, table: TopicTable, accepted: Sequence[FileReplacement], files: SnapshotFiles
    ) -> Any:
        listed = {file.path for file in files.own}
        others = (old for asked in accepted for old in asked.old if old.path not in listed)
        planned = right(self, table, accepted, replace(files, own=(*files.own, *others)))
        there = tuple(
            file
            for file in files.own
            if any(file.partition == asked.partition and file.range.overlaps(asked.range) for asked in accepted)
        )
        return replace(planned, removed=there)

    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(ReplaceDataFiles, "_update", update))
    stack.enter_context(mock.patch.object(replacement, "decide_replacements", decide))
    return stack


def digest_stays() -> AbstractContextManager[Any]:
    """The ledger goes on with the digest of what was there before."""
    right = EraseRecords._erasure

    def erasure(self: EraseRecords, *args: Any) -> Erasure:
        found = right(self, *args)
        return replace(found, after=found.before)

    return mock.patch.object(EraseRecords, "_erasure", erasure)


def offsets_not_remembered() -> AbstractContextManager[Any]:
    """The table knows how many records were erased, and not which: fsck would call them lost."""
    right = ErasedRecords.with_erasure
    return mock.patch.object(ErasedRecords, "with_erasure", lambda self, erasure, _: right(self, erasure, ()))


def history_kept() -> AbstractContextManager[Any]:
    """Snapshots from before an erasure stay as long as any."""
    return mock.patch.object(history, "erases", return_value=False)
