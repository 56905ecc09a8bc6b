"""A writer that says what is not so of its file: the verifier refuses it, and fsck names it where it was committed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import Corrupt
from engine.fsck.check import fsck_table
from engine.fsck.report import Damage
from engine.offset_range import OffsetRange
from engine.records.records import Records
from engine.table.commit.range_append import RangeAppend
from engine.table.data_file import FileDescription
from engine.table.ledger import Outcome
from engine.table.proof.verification import verify_file
from engine.table.proof.verifier import VERIFIERS_TOKEN, VerifiedFile, Verifier
from engine.table.topic_table import TopicTable
from tests.engine.table.proof.lies import LIES, Lie, plant
from tests.engine.table.proof.written_file import WrittenFile
from tests.engine.table.table_examples import (
    append_of,
    ensure_table,
    open_writer,
    outcomes,
    records_of,
    stored_offsets,
    write_file,
)

COUNT = 9000
COVERED = OffsetRange(start=0, end=COUNT)


def records() -> Records:
    """Three pages, values and keys among nulls, and headers."""
    return records_of(
        [None if at % 7 == 0 else b"value %d" % at for at in range(COUNT)],
        keys=[None if at % 5 == 0 else b"key %d" % (at % 100) for at in range(COUNT)],
        headers=[[(b"h", b"%d" % at)] * (at % 3) for at in range(COUNT)],
    )


@pytest.fixture
def table(tmp_path: Path) -> TopicTable:
    return ensure_table(open_writer(tmp_path))


def nothing(_: WrittenFile) -> None:
    """No lie."""


@pytest.mark.parametrize("is_taken_apart", [False, True])
def test_honest_file_is_accepted(table: TopicTable, is_taken_apart: bool) -> None:
    description = lying_file(table, nothing) if is_taken_apart else write_file(table.facts, records(), covered=COVERED)
    assert Verifier().accept(description, verify_file(description.path, table.facts)).description == description


def lying_file(table: TopicTable, lie: Lie) -> FileDescription:
    with pytest.MonkeyPatch.context() as planted:
        plant(planted, lie)
        return write_file(table.facts, records(), covered=COVERED)


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_file_that_lies_is_refused_and_nothing_is_committed(table: TopicTable, tmp_path: Path, lie: Lie) -> None:
    with pytest.MonkeyPatch.context() as planted:
        plant(planted, lie)
        with pytest.raises(Corrupt) as caught:
            append_of(table, 0, COUNT)
    assert caught.value.file is not None
    assert stored_offsets(tmp_path, table) == []


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_file_that_lies_is_named_by_fsck(table: TopicTable, tmp_path: Path, lie: Lie) -> None:
    description = lying_file(table, lie)
    append = RangeAppend(
        partition=0,
        range=COVERED,
        leader_epoch=3,
        digest=description.digest,
        file=VerifiedFile(description=description, token=VERIFIERS_TOKEN),
    )
    writer = open_writer(tmp_path)
    assert outcomes(writer, table, append) == [Outcome.COMMITTED]
    reopened = writer.open(table.topic, table.topic_id)
    assert reopened is not None
    findings = fsck_table(reopened, log_dirs=[]).findings
    assert {finding.damage for finding in findings} <= {Damage.FALSE_BOUNDS, Damage.DAMAGED_FILE, Damage.WRONG_COUNT}
    assert {finding.file for finding in findings} == {description.path}


@pytest.mark.parametrize("column", ["kafka_offset", "kafka_key"])
@pytest.mark.parametrize("what", ["bounds", "null_count", "value_count"])
def test_manifest_entry_that_lies_about_kafkas_columns_is_refused(table: TopicTable, column: str, what: str) -> None:
    description = write_file(table.facts, records(), covered=COVERED)
    evidence = verify_file(description.path, table.facts)
    field_id = int(table.iceberg_schema.find_field(column).field_id)
    stats = description.columns[field_id]
    if what == "bounds":
        lying = replace(stats, lower=stats.upper, upper=stats.lower)
    else:
        lying = replace(stats, **{what: (getattr(stats, what) or 0) + 1})
    columns = {**description.columns, field_id: lying}
    with pytest.raises(Corrupt, match=column):
        Verifier().accept(replace(description, columns=columns), evidence)
