"""The embedded catalog's database locked, full, failing, damaged, replaced or gone, met through the writer."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import event

from engine.errors import CommitUnknown, Corrupt, Unavailable
from engine.fsck.check import fsck_table
from engine.table.catalog.access import embedded_catalog_properties, open_catalog
from engine.table.catalog.sql import BUSY_MS_PROPERTY, SqliteCatalog
from engine.table.commit.writer import TableWriter
from engine.table.ledger import Outcome
from engine.table.topic_table import TopicTable
from tests.engine.table.table_examples import (
    TOPIC,
    TOPIC_ID,
    StillClock,
    append_of,
    ensure_table,
    outcomes,
    reopened,
    stored_offsets,
)
from tests.support.world_faults import no_room_for_files_over


class Stage:
    """A table with [0, 10) in an embedded catalog whose patience with a lock is short."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = folder / "catalog.db"
        catalog = open_catalog({**embedded_catalog_properties(folder), BUSY_MS_PROPERTY: "100"})
        assert isinstance(catalog, SqliteCatalog)
        self.catalog = catalog
        self.clock = StillClock()
        self.writer = TableWriter(catalog, self.clock)
        self.table = ensure_table(self.writer)
        assert outcomes(self.writer, self.table, append_of(self.table, 0, 10)) == [Outcome.COMMITTED]

    def commit(self, start: int, end: int) -> list[Outcome]:
        return outcomes(
            self.writer, self.table, append_of(self.table, start, end, attempt=f"t{len(self.clock.waited_ms)}")
        )

    def check(self, end: int) -> TopicTable:
        """Every offset below ``end`` is there once, as a new process sees it."""
        seen = reopened(self.folder)
        assert (seen.ledger[0].end, stored_offsets(self.folder, seen)) == (end, list(range(end)))
        assert fsck_table(seen).findings == ()
        return seen

    def backup(self, name: str) -> Path:
        """A copy as SQLite itself makes it, beside the database."""
        copy = self.folder / name
        with closing(sqlite3.connect(self.database)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
        return copy

    def replace_database(self, by: Path) -> None:
        """As an operator restores a backup: its journal goes with the database it belonged to."""
        for suffix in ("-wal", "-shm"):
            self.database.with_name(self.database.name + suffix).unlink(missing_ok=True)
        by.replace(self.database)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_database_locked_beyond_the_patience_is_unavailable_and_asked_once(stage: Stage) -> None:
    with closing(sqlite3.connect(stage.database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match="locked"):
            stage.commit(10, 20)
        assert stage.clock.waited_ms == []
        stage.check(10)
    assert stage.commit(10, 20) == [Outcome.COMMITTED]
    stage.check(20)


def test_full_database_is_unavailable_and_goes_on_when_there_is_room(stage: Stage) -> None:
    def no_room(connection: sqlite3.Connection, *_: object) -> None:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count={pages}")

    event.listen(stage.catalog.engine, "connect", no_room)
    stage.catalog.engine.dispose()
    with pytest.raises(Unavailable, match="full"):
        make_tables(stage, 1000)
    event.remove(stage.catalog.engine, "connect", no_room)
    stage.catalog.engine.dispose()
    assert stage.commit(10, 20) == [Outcome.COMMITTED]
    stage.check(20)


def make_tables(stage: Stage, count: int) -> None:
    for number in range(count):
        ensure_table(stage.writer, topic=f"topic-{number}", topic_id=f"{number:022}")


def test_io_error_leaves_the_commit_unknown_until_the_disk_is_well(stage: Stage) -> None:
    journal = stage.database.with_name("catalog.db-wal")
    append = append_of(stage.table, 10, 20)
    # The journal has to be the largest file that the commit writes to.
    with closing(sqlite3.connect(stage.database)) as other:
        other.execute("PRAGMA wal_autocheckpoint=0")
        other.execute("CREATE TABLE ballast (bytes BLOB)")
        other.execute("INSERT INTO ballast VALUES (randomblob(1000000))")
        other.commit()
        with no_room_for_files_over(journal.stat().st_size), pytest.raises(CommitUnknown, match="I/O error"):
            stage.writer.commit(stage.table, [append])
    stage.check(10)
    assert outcomes(stage.writer, stage.table, append) == [Outcome.COMMITTED]
    stage.check(20)


def test_commits_go_to_the_database_that_took_the_others_place(stage: Stage) -> None:
    stage.replace_database(stage.backup("copy"))
    assert stage.commit(10, 20) == [Outcome.COMMITTED]
    assert stage.check(20).ledger[0].end == 20


def test_older_backup_shows_as_a_gap_and_is_filled_again(stage: Stage) -> None:
    older = stage.backup("older")
    assert stage.commit(10, 20) == [Outcome.COMMITTED]
    stage.replace_database(older)
    assert stage.commit(20, 30) == [Outcome.GAP]
    found = stage.writer.open(TOPIC, TOPIC_ID)
    assert found is not None
    assert found.ledger[0].end == 10
    assert outcomes(stage.writer, found, append_of(found, 10, 30, attempt="again")) == [Outcome.COMMITTED]
    stage.check(30)


def test_database_that_is_gone_is_not_made_anew_and_may_come_back(stage: Stage) -> None:
    aside = stage.backup("aside")
    stage.replace_database(aside)
    stage.database.rename(aside)
    for ask in (lambda: stage.writer.open(TOPIC, TOPIC_ID), lambda: stage.commit(10, 20)):
        with pytest.raises(Unavailable, match="gone"):
            ask()
    assert not stage.database.exists()
    aside.rename(stage.database)
    assert stage.commit(10, 20) == [Outcome.COMMITTED]
    stage.check(20)


def test_file_that_is_no_database_is_corrupt_now_and_at_the_next_start(stage: Stage) -> None:
    good = stage.backup("good")
    damaged = stage.folder / "damaged"
    damaged.write_bytes(b"not a database, but something that somebody copied here " * 200)
    stage.replace_database(damaged)
    with pytest.raises(Corrupt, match="damaged"):
        stage.commit(10, 20)
    with pytest.raises(Corrupt, match="damaged"):
        open_catalog(embedded_catalog_properties(stage.folder))
    stage.replace_database(good)
    assert stage.commit(10, 20) == [Outcome.COMMITTED]
    stage.check(20)


def test_read_only_database_is_unavailable_and_read_all_the_same(stage: Stage) -> None:
    copy = stage.backup("copy")
    properties = {**embedded_catalog_properties(stage.folder), "uri": f"sqlite:///file:{copy}?mode=ro&uri=true"}
    writer = TableWriter(open_catalog(properties), StillClock())
    table = writer.open(TOPIC, TOPIC_ID)
    assert table is not None
    with pytest.raises(Unavailable, match="readonly"):
        writer.commit(table, [append_of(table, 10, 20)])
    stage.check(10)
