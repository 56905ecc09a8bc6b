"""Any bit or length of a metadata file: an error of the program's own kinds, or what the whole file says."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import Corrupt, FloebergError
from engine.fsck.manifest import list_files
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from engine.table.catalog.access import warehouse_of
from engine.table.loading import TableLoader
from engine.table.manifests import ManifestReader
from floeberg.tables.topic_tables import TopicTables
from tests.faults.fault_world import FaultWorld, path_of
from tests.faults.sights import fsck
from tests.support.auditor_sights import records_of_batches

FLIPS, CUTS = 60, 12

PLACES: dict[str, Callable[[FaultWorld], Path]] = {
    "metadata": lambda world: world.metadata_file(),
    "manifest list": lambda world: world.manifest_list(),
    "manifest": lambda world: path_of(world.manifest_of(0, 0).manifest_path),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> FaultWorld:
    return FaultWorld(tmp_path_factory.mktemp("fuzz"))


def variants(content: bytes, seed: int) -> list[bytes]:
    chance = random.Random(seed)
    changed = []
    for _ in range(FLIPS):
        flipped = bytearray(content)
        flipped[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        changed.append(bytes(flipped))
    return changed + [content[: chance.randrange(len(content))] for _ in range(CUTS)]


def read_all(world: FaultWorld) -> tuple[int, list[str]]:
    """(how many segments are refused, what consumers got that was not written)."""
    refused, wrong = 0, []
    reader = LogReader(file_index=FileIndex())
    with closing(world.open_catalog()) as catalog, closing(reader):
        tables = TopicTables(catalog, "kafka", topic_of={who.topic_id: who.topic for who in world.truth}.get)
        for who, offsets in world.segments():
            if who.topic != "orders":
                continue
            try:
                table = tables.load(who.topic_id)
                if table is None:  # it no longer says whose it is: the door asks the broker to come back
                    refused += 1
                    continue
                content = b"".join(reader.read(table, who.partition, offsets=offsets, start=offsets.start))
            except FloebergError:
                refused += 1
                continue
            expected = [(offset, record) for offset, record in sorted(world.truth[who].items()) if offset in offsets]
            if list(records_of_batches(content)) != expected:
                wrong.append(f"{who} {offsets}")
    return refused, wrong


@pytest.mark.parametrize("place", PLACES)
def test_any_bit_of_a_metadata_file_gives_no_wrong_record(world: FaultWorld, place: str) -> None:
    world.restore()
    path = PLACES[place](world)
    content = path.read_bytes()
    for changed in variants(content, seed=len(place)):
        path.write_bytes(changed)
        refused, wrong = read_all(world)
        assert wrong == []
        if place != "metadata":
            assert refused, "the sealed bytes are others"


@pytest.mark.parametrize("place", ["manifest list", "manifest"])
def test_fsck_names_any_bit_of_a_manifest(world: FaultWorld, place: str) -> None:
    world.restore()
    path = PLACES[place](world)
    content = path.read_bytes()
    for changed in variants(content, seed=7)[::6]:
        path.write_bytes(changed)
        assert any(finding.file is not None and finding.file.endswith(path.name) for finding in fsck(world))


def test_what_an_earlier_version_sealed_is_decoded_or_corrupt(world: FaultWorld) -> None:
    """Without a checksum the decoders meet the damage themselves."""
    world.restore()
    named: set[str | None] = set()
    for place in ("manifest list", "manifest"):
        path = PLACES[place](world)
        content = path.read_bytes()
        with closing(world.open_catalog()) as catalog:
            view = TableLoader(lambda: warehouse_of(catalog)).view(catalog.load_table("kafka.orders"))
        for changed in variants(content, seed=11):
            path.write_bytes(changed)
            try:
                list_files(replace(view, manifest_seal=None))
                ManifestReader().files(replace(view, manifest_seal=None))
            except Corrupt as error:
                named.add(error.topic)
        path.write_bytes(content)
    assert named == {"orders"}
