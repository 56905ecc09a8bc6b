"""The seal over manifests: kept by appends that read none, by replacements, by the first commit after an upgrade."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import crc32c
import pytest
from pyiceberg.table import Table

from engine.errors import Corrupt
from engine.table.commit.replacement import FileReplacement
from engine.table.ledger import Outcome
from engine.table.manifest_seal import ChecksumIO
from engine.table.manifests import ManifestReader
from engine.table.seal import (
    GUARD_PREFIX,
    SCHEMA_SEAL_PROPERTY,
    SEAL_PROPERTY,
    broken_guards,
    is_sealed,
    seal_of,
    sealed_total,
    total_after,
)
from engine.table.topic_table import TopicTable
from tests.engine.table.table_examples import (
    append_of,
    catalog_in,
    ensure_table,
    open_writer,
    outcomes,
    reopened,
)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The metadata files that commits read."""
    read: list[str] = []
    content = ChecksumIO.content

    def noted(self: ChecksumIO, location: str) -> bytes:
        read.append(location.rpartition("/")[2])
        return content(self, location)

    monkeypatch.setattr(ChecksumIO, "content", noted)
    return read


def filled(folder: Path, commits: int = 3) -> TopicTable:
    writer = open_writer(folder)
    table = ensure_table(writer)
    for number in range(commits):
        assert outcomes(writer, table, append_of(table, number * 5, number * 5 + 5)) == [Outcome.COMMITTED]
    return reopened(folder)


def iceberg(folder: Path) -> Table:
    return catalog_in(folder).load_table("kafka.orders")


def local(path: str | None) -> Path:
    assert path is not None
    return Path(path.removeprefix("file://"))


def check_sealed(folder: Path, manifests: int) -> None:
    table = reopened(folder)
    assert table.foreign is None
    assert table.manifest_seal is not None
    assert table.manifest_seal.count == manifests
    ManifestReader().files(table)


def test_appends_read_their_parents_list_and_no_manifest(tmp_path: Path, opened: list[str]) -> None:
    filled(tmp_path, commits=4)
    assert len(opened) == 3
    assert all(name.startswith("snap-") for name in opened)
    check_sealed(tmp_path, 4)


def test_replaced_files_and_the_append_after_it_are_sealed(tmp_path: Path) -> None:
    table = filled(tmp_path)
    writer = open_writer(tmp_path)
    old = ManifestReader().files(table).own[1]
    new = append_of(table, 5, 10, attempt="b2")
    assert new.file is not None
    writer.replace(table, [FileReplacement(old=(old,), digest=new.digest, new=(new.file,))])
    # The rewritten manifest, and one of what was taken out, which the next append leaves out.
    check_sealed(tmp_path, 4)
    outcomes(writer, table, append_of(table, 15, 20))
    check_sealed(tmp_path, 4)


def test_damaged_manifest_list_is_not_built_upon(tmp_path: Path) -> None:
    table = filled(tmp_path)
    path = local(table.manifest_list)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    writer = open_writer(tmp_path)
    with pytest.raises(Corrupt, match="not what Floeberg wrote") as raised:
        writer.commit(table, [append_of(table, 15, 20)])
    assert raised.value.file == table.manifest_list
    assert iceberg(tmp_path).metadata.current_snapshot_id == table.snapshot_id


@pytest.mark.parametrize("are_expired", [False, True], ids=["with_its_snapshot", "without"])
def test_damaged_manifest_is_refused_and_named_while_its_snapshot_is_kept(tmp_path: Path, are_expired: bool) -> None:
    table = filled(tmp_path)
    catalog = iceberg(tmp_path)
    if are_expired:
        older = [s.snapshot_id for s in catalog.metadata.snapshots if s.snapshot_id != table.snapshot_id]
        catalog.maintenance.expire_snapshots().by_ids(older).commit()
        table = reopened(tmp_path)
    snapshot = iceberg(tmp_path).metadata.current_snapshot()
    assert snapshot is not None
    oldest = snapshot.manifests(iceberg(tmp_path).io)[-1].manifest_path
    path = local(oldest)
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    with pytest.raises(Corrupt) as raised:
        ManifestReader().files(table)
    assert raised.value.file == (table.manifest_list if are_expired else oldest)
    assert raised.value.next_step is not None


def test_table_of_an_earlier_version_is_read_and_sealed_whole_by_its_next_commit(
    tmp_path: Path, opened: list[str]
) -> None:
    table = filled(tmp_path)
    writer = open_writer(tmp_path)
    loaded = iceberg(tmp_path)
    properties = loaded.metadata.properties
    sealed = sorted((name, text) for name, text in properties.items() if is_sealed(name))
    seal = {name: json.loads(properties[SEAL_PROPERTY])[name] for name in ("table", "snapshot")}
    seal["properties"] = f"{crc32c.crc32c(json.dumps(sealed).encode()):08x}"
    schema_seal = "/".join(properties[SCHEMA_SEAL_PROPERTY].split("/")[:2])
    with loaded.transaction() as transaction:
        transaction.set_properties({SEAL_PROPERTY: json.dumps(seal), SCHEMA_SEAL_PROPERTY: schema_seal})
        transaction.remove_properties(*(name for name in properties if name.startswith(GUARD_PREFIX)))
    before = reopened(tmp_path)
    assert (before.foreign, before.manifest_seal) == (None, None)
    assert ManifestReader().files(before) == ManifestReader().files(table)
    opened.clear()
    outcomes(writer, before, append_of(before, 15, 20))
    assert len([name for name in opened if not name.startswith("snap-")]) == 3, "each manifest once"
    check_sealed(tmp_path, 4)
    assert iceberg(tmp_path).metadata.properties[SCHEMA_SEAL_PROPERTY].count("/") == 2
    assert broken_guards(iceberg(tmp_path).metadata.properties) == ()


def test_sum_of_the_sealed_properties_follows_what_each_commit_changes(tmp_path: Path) -> None:
    writer, table = open_writer(tmp_path), filled(tmp_path)
    writer.move_horizons(table, log_starts={0: 3})
    properties = iceberg(tmp_path).metadata.properties
    seal = seal_of(properties)
    assert seal is not None
    assert seal.total == sealed_total(properties)
    changed = {"floeberg.ledger.0": "other", "floeberg.ledger.7": "new", "not.ours": "1"}
    assert total_after(properties, changed) == sealed_total({**properties, **changed})
    for name in ("floeberg.ledger.0", "floeberg.topic"):
        assert not seal.is_of({**properties, name: properties[name] + " "})
        assert not seal.is_of({other: text for other, text in properties.items() if other != name})


def test_properties_that_no_commit_of_files_writes_have_guards_of_their_own(tmp_path: Path) -> None:
    filled(tmp_path)
    properties = dict(iceberg(tmp_path).metadata.properties)
    guarded = {"floeberg.schema.7": "text", f"{GUARD_PREFIX}floeberg.schema.7": "00000000"}
    assert broken_guards({**properties, **guarded}) == ("floeberg.schema.7",)
    assert broken_guards({f"{GUARD_PREFIX}floeberg.schema.8": "00000000"}) == ("floeberg.schema.8",)


def test_reads_of_a_table_without_a_seal_go_on_unchecked(tmp_path: Path) -> None:
    table = replace(filled(tmp_path), manifest_seal=None)
    assert len(ManifestReader().files(table).own) == 3
