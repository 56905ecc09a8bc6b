"""Parsed metadata that catalogs of one process share."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.serializers import FromInputFile

from engine.table.catalog.access import embedded_catalog_properties, open_catalog
from engine.table.catalog.sql import KeptMetadata, shared
from engine.table.commit.writer import TableWriter
from tests.engine.table.table_examples import StillClock, append_of, ensure_table


def test_what_one_catalog_wrote_another_parses_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = KeptMetadata()
    ours, theirs = (open_catalog(embedded_catalog_properties(tmp_path), kept) for _ in range(2))
    writer = TableWriter(ours, StillClock())
    table = ensure_table(writer)
    table = writer.commit(table, [append_of(table, 0, 5)]).table

    def unwanted(*_: object) -> None:
        raise AssertionError("it was parsed again")

    monkeypatch.setattr(FromInputFile, "table_metadata", unwanted)
    assert theirs.load_table(table.identifier).metadata_location == table.metadata_location


def test_newest_of_each_table_is_kept_within_the_bound(tmp_path: Path) -> None:
    writer = TableWriter(open_catalog(embedded_catalog_properties(tmp_path)), StillClock())
    found = {}
    for topic in ("a", "b", "c"):
        table = ensure_table(writer, topic=topic)
        found[topic] = open_catalog(embedded_catalog_properties(tmp_path)).load_table(table.identifier).metadata
    kept = KeptMetadata(capacity_bytes=200_000)
    for topic in ("a", "b"):
        kept.put(f"{topic}/metadata/1.json", found[topic])
        kept.put(f"{topic}/metadata/2.json", found[topic])
    assert [kept.get(f"{topic}/metadata/{number}.json") is None for topic in "ab" for number in (1, 2)] == [
        True,
        False,
        True,
        False,
    ]
    kept.put("c/metadata/1.json", found["c"])
    assert kept.get("a/metadata/2.json") is None
    assert kept.get("c/metadata/1.json") is found["c"]


def test_copies_of_shared_metadata_have_the_same_parts_and_are_equal(tmp_path: Path) -> None:
    writer = TableWriter(open_catalog(embedded_catalog_properties(tmp_path)), StillClock())
    metadata = open_catalog(embedded_catalog_properties(tmp_path)).load_table(ensure_table(writer).identifier).metadata
    copied = shared(metadata).model_copy(deep=True)
    assert copied.schemas is metadata.schemas
    assert copied.model_dump_json() == metadata.model_dump_json()
