"""Finds the files of a table that a repair could make better: by its manifests, then by some of their footers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from engine.errors import FloebergError
from engine.parquet.ranged_file import ReadCount
from engine.table.manifests import ManifestReader, TableFile
from engine.table.merge.plan import Candidate, Missing
from engine.table.merge.stored_file import StoredFile, named
from engine.table.topic_table import TableFacts, TopicTable

FOOTER_THREADS = 8
"""Footers read at once: one request each where the warehouse is far away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRows:
    """Rows of a partition that say why they keep their bytes, by the manifests, and those among them that miss a
    schema, by the footers read so far: a repair gives them columns once it is there. The others are as they are for
    good."""

    with_reason: int = 0
    awaiting_schema: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a look at a table found.

    ``candidates`` sorted; ``kept`` by partition; ``unreadable`` the errors of files whose footer can't be had;
    ``unread`` files that were left for a next look; ``adopted`` ranges that another program rewrote, which are never
    repaired.
    """

    candidates: tuple[Candidate, ...]
    kept: Mapping[int, KeptRows] = field(default_factory=dict)
    unreadable: tuple[FloebergError, ...] = ()
    unread: int = 0
    adopted: int = 0


@dataclass(slots=True)
class RepairCandidates:
    """One table's. What a file's footer says is kept as long as the file is in the table: it never changes."""

    _manifests: ManifestReader = field(default_factory=ManifestReader)
    _missing: dict[str, Missing] = field(default_factory=dict)
    _unreadable: dict[str, FloebergError] = field(default_factory=dict)

    def forget_unreadable(self) -> None:
        """Files whose footer could not be had are looked at again."""
        self._unreadable.clear()

    def look(self, table: TopicTable, *, max_footers: int | None = None) -> Survey:
        """Reads the manifests that are new since the last look, and up to ``max_footers`` footers.

        Raises Corrupt (a manifest), Unavailable.
        """
        listed = self._manifests.files(table)
        # A manifest without the count leaves the question to the footer.
        files = [file for file in listed.whole_own() if file.reason_rows != 0]
        present = {file.path for file in files}
        self._missing = {path: missing for path, missing in self._missing.items() if path in present}
        self._unreadable = {path: error for path, error in self._unreadable.items() if path in present}
        unseen = [file for file in files if file.path not in self._missing and file.path not in self._unreadable]
        read_now = unseen if max_footers is None else unseen[:max_footers]
        self._read(table.facts, read_now)
        return Survey(
            candidates=tuple(
                Candidate(file=file, missing=self._missing[file.path]) for file in files if file.path in self._missing
            ),
            kept=self._kept(files),
            unreadable=tuple(self._unreadable.values()),
            unread=len(unseen) - len(read_now),
            adopted=sum(map(len, table.adopted.values())),
        )

    def _kept(self, files: Sequence[TableFile]) -> dict[int, KeptRows]:
        found: dict[int, KeptRows] = {}
        for file in files:
            before, missing = found.get(file.partition, KeptRows()), self._missing.get(file.path)
            awaiting = 0 if missing is None else missing.rows_without_schema
            # A file of before the manifests counted reasons has at least those that its footer tells.
            reasons = awaiting if file.reason_rows is None else file.reason_rows
            found[file.partition] = KeptRows(
                with_reason=before.with_reason + reasons,
                awaiting_schema=before.awaiting_schema + min(awaiting, reasons),
            )
        return found

    def note(self, path: str, missing: Missing) -> None:
        """What a file was found to lack when it was decoded again, and not replaced."""
        self._missing[path] = missing

    def _read(self, facts: TableFacts, files: list[TableFile]) -> None:
        def read(file: TableFile) -> Missing | FloebergError:
            try:
                with named(facts, file, cannot="be looked at", next_step="run floeberg fsck on the topic"):
                    return Missing.of(StoredFile(table=facts, file=file, count=ReadCount()).footer)
            except FloebergError as error:
                return error

        with ThreadPoolExecutor(FOOTER_THREADS, thread_name_prefix="repair-footers") as pool:
            for file, found in zip(files, pool.map(read, files), strict=True):
                if isinstance(found, Missing):
                    self._missing[file.path] = found
                else:
                    self._unreadable[file.path] = found
