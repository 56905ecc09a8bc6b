"""Tiered topics that are deleted at a real broker and created again: no request of the broker decides what the table
keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.native.clients import CLIENTS
from tests.native.conftest import DROPPED
from tests.native.deleted_topic import DeletedTopic, fill
from tests.native.stage import NativeStage, eventually, sample

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("native")]
RECORDS = 25_000
"""Three segments."""

FIRST, SECOND = sample(0, RECORDS), sample(RECORDS, RECORDS)
"""Of a topic and of the next one of its name."""

ROWS = [(offset, sent.value) for offset, sent in enumerate(FIRST)]
UNKNOWN = b"(yet)"
"""What is said of a topic that has no table."""


def assert_second_is_read(stage: NativeStage, topic: str) -> None:
    for client, read in CLIENTS.items():
        found = read(stage.broker.bootstrap, topic, 0, RECORDS, lambda _: None, False)
        assert found == list(enumerate(SECOND)), client
    assert stage.fsck(topic).is_healthy


def test_deleted_topics_table_goes_after_both_graces_whenever_the_broker_asks_and_the_next_topic_keeps_its_own(
    stage: NativeStage, tmp_path: Path
) -> None:
    deleted = DeletedTopic(stage, DROPPED, FIRST, tmp_path)
    deleted.await_reads(200)
    assert deleted.ask_to_delete_again() == [204] * len(deleted.asked)
    before = deleted.files()
    assert deleted.rows(deleted.table.identifier) == ROWS

    def is_dropped() -> bool:
        status = deleted.pass_grace()
        return status is not None and status.is_dropped

    eventually(is_dropped, lambda: f"{deleted.status()}")
    assert (deleted.rows(deleted.table.identifier), deleted.rows(deleted.retired)) == (None, None)
    assert set(before) <= set(deleted.files()), "they could be registered again"
    with stage.closed_door():
        # The door that opens again has no view of the table.
        pass
    deleted.await_reads(503, UNKNOWN)
    assert deleted.ask_to_delete_again() == [204] * len(deleted.asked)

    own = fill(stage, DROPPED, SECOND)
    assert own.location != deleted.table.location

    def is_swept() -> bool:
        deleted.pass_grace()
        return not deleted.files()

    eventually(is_swept, lambda: f"{deleted.status()} {deleted.files()}")
    deleted.await_reads(503, UNKNOWN)
    assert deleted.ask_to_delete_again() == [204] * len(deleted.asked)
    assert deleted.status() is None
    assert_second_is_read(stage, DROPPED)


def test_deleted_topics_table_is_kept_by_default_and_the_next_topic_has_its_own(
    stage: NativeStage, tmp_path: Path
) -> None:
    topic = "deleted-and-kept"
    deleted = DeletedTopic(stage, topic, FIRST, tmp_path)

    def assert_kept() -> None:
        for _ in range(3):
            status = deleted.pass_grace()
            assert status is not None
            assert status.kept == 'delete_on_topic_deletion = "keep"'
        assert deleted.ask_to_delete_again() == [204] * len(deleted.asked)
        deleted.await_reads(200)

    assert_kept()
    assert deleted.rows(deleted.table.identifier) == ROWS
    own = fill(stage, topic, SECOND)
    assert own.location != deleted.table.location
    assert own.identifier == deleted.table.identifier
    assert_kept()
    assert deleted.rows(deleted.retired) == ROWS
    assert_second_is_read(stage, topic)
