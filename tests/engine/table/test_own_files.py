from __future__ import annotations

from pathlib import Path

import pytest

from engine.offset_range import OffsetRange
from engine.table.own_files import FileKind, OwnFiles
from tests.engine.table.table_examples import append_of, ensure_table, open_writer, outcomes

LOCATION = "s3://bucket/kafka/orders-ID.1"
OWN = OwnFiles.of(LOCATION, "ID+1")
DATA = "data/ID+1/p=3/00000000000000000000-00000000000000000010-e7-a1.parquet"
UUID = "0190a1b2-0000-7000-8000-00000000000f"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (DATA, FileKind.DATA),
        (DATA.replace("-e7-", "-e-1-"), FileKind.DATA),
        (f"metadata/floeberg-{UUID}-m12.avro", FileKind.METADATA),
        (f"metadata/snap-5577-0-floeberg-{UUID}.avro", FileKind.METADATA),
        (f"metadata/00012-{UUID}.metadata.json", FileKind.STATE),
        (f"metadata/00012-{UUID}.gz.metadata.json", FileKind.STATE),
        ("metadata/schema-8-0badcafe.txt", FileKind.SCHEMA),
        ("log_door/p=0/00000000000000000000-00000000000000000010.aux", FileKind.AUXILIARY),
        (f"{DATA}.writing", FileKind.TEMPORARY),
        (f"metadata/floeberg-{UUID}-m12.avro.writing", FileKind.TEMPORARY),
    ],
)
def test_file_of_ours_is_told_by_place_and_name(path: str, kind: FileKind) -> None:
    found = OWN.kind_of(f"{LOCATION}/{path}")
    assert found is not None
    assert found.kind is kind


def test_files_beside_the_tables_folder_say_of_what_they_are() -> None:
    schema = OWN.kind_of(f"{LOCATION}-floeberg/schemas/-2-0badcafe.txt")
    assert schema is not None
    assert (schema.kind, schema.schema_id) == (FileKind.SCHEMA, -2)
    state = OWN.kind_of(f"{LOCATION}-floeberg/log_door/p=12/00000000000000000007-00000000000000000010.aux")
    assert state is not None
    assert (state.kind, state.partition, state.range) == (FileKind.AUXILIARY, 12, OffsetRange(start=7, end=10))


@pytest.mark.parametrize(
    "path",
    [
        # Of another incarnation, elsewhere, or deeper: a table of somebody else's may lie inside.
        f"{LOCATION}/{DATA.replace('ID+1', 'IDD1')}",
        f"{LOCATION}/nested/{DATA}",
        f"{LOCATION}/nested/metadata/floeberg-{UUID}-m0.avro",
        f"{LOCATION.replace('ID.1', 'IDx1')}/{DATA}",
        f"{LOCATION}-floeberg/{DATA}",
        # Another program's names.
        f"{LOCATION}/data/kafka_partition=0/00000-0-{UUID}-00001.parquet",
        f"{LOCATION}/metadata/{UUID}-m0.avro",
        f"{LOCATION}/metadata/snap-5577-1-{UUID}.avro",
        f"{LOCATION}/metadata/version-hint.text",
        f"{LOCATION}/metadata/x-floeberg-{UUID}-m12.avro",
        f"{LOCATION}/{DATA}.crc",
        f"{LOCATION}/{DATA}\n",
    ],
)
def test_file_of_anybody_else_is_none_of_ours(path: str) -> None:
    assert OWN.kind_of(path) is None


def test_every_file_that_commits_and_schemas_make_is_known(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    table = ensure_table(writer)
    table = writer.add_schemas(table, {8: '"' + "x" * (64 << 10) + '"'})
    outcomes(writer, table, append_of(table, 0, 5))
    own = OwnFiles.of(table.location, table.topic_id)
    kinds = [own.kind_of(file.path) for folder in own.folders for file in table.warehouse.list(folder)]
    assert None not in kinds
    made = {kind.kind for kind in kinds if kind is not None}
    assert made == {FileKind.DATA, FileKind.METADATA, FileKind.STATE, FileKind.SCHEMA}
