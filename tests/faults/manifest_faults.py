"""Faults of the files that name the data files: manifests and the list of them."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable

from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus, ManifestFile

from engine.fsck.report import Damage
from tests.faults.fault import Faults, Region
from tests.faults.fault_world import SEGMENT, FaultWorld, cut, flip, path_of

MANIFESTS = Faults(Region.MANIFEST)
LISTS = Faults(Region.MANIFEST_LIST)

# Places in the library's records (Iceberg's table specification, "Manifests", "Manifest Lists").
_PATH, _PARTITION, _RECORD_COUNT, _SIZE, _VALUE_COUNTS, _LOWER_BOUNDS = 1, 3, 4, 5, 7, 10
_LENGTH, _ADDED_FILES, _ADDED_ROWS = 1, 7, 10


def _bytes_of_manifests() -> None:
    def faulty(name: str, damage: Callable[[FaultWorld, ManifestFile], None]) -> None:
        def plant(world: FaultWorld) -> str:
            manifest = world.manifest_of(0, 0)
            damage(world, manifest)
            return path_of(manifest.manifest_path).name

        MANIFESTS.fault(Damage.DAMAGED_METADATA, name=name)(plant)

    faulty("manifest is gone", lambda _world, manifest: path_of(manifest.manifest_path).unlink())
    faulty("manifest is empty", lambda _world, manifest: cut(path_of(manifest.manifest_path), 0))
    faulty("half of a manifest", lambda _world, manifest: cut(path_of(manifest.manifest_path), 0.5))
    faulty("manifest without its last bytes", lambda _world, manifest: cut(path_of(manifest.manifest_path), 0.99))
    faulty(
        "another manifest's content",
        lambda world, manifest: _copy(path_of(world.manifest_of(0, 2 * SEGMENT).manifest_path), manifest),
    )
    for share in (0.001, 0.1, 0.3, 0.6, 0.9, 0.95, 0.98, 0.999):
        faulty(
            f"a bit of a manifest at {share}",
            lambda _world, manifest, share=share: flip(path_of(manifest.manifest_path), share),  # type: ignore[misc]
        )


def _copy(source: object, manifest: ManifestFile) -> None:
    shutil.copy(str(source), path_of(manifest.manifest_path))


def _edits_of_manifests() -> None:
    def edited(name: str, edit: Callable[[ManifestEntry], None]) -> None:
        def change(entries: list[ManifestEntry]) -> list[ManifestEntry]:
            edit(entries[0])
            return entries

        rewritten(name, change)

    def rewritten(name: str, change: Callable[[list[ManifestEntry]], list[ManifestEntry]]) -> None:
        def plant(world: FaultWorld) -> str:
            world.rewrite_manifest(world.manifest_of(0, 0), change)
            return ".avro"

        MANIFESTS.fault(Damage.DAMAGED_METADATA, name=f"manifest and list edited: {name}")(plant)

    edited("one record more", lambda entry: _set(entry, _RECORD_COUNT, entry.data_file.record_count + 1))
    edited("one byte more", lambda entry: _set(entry, _SIZE, entry.data_file.file_size_in_bytes + 1))
    edited("another path", lambda entry: _set(entry, _PATH, entry.data_file.file_path.replace("-e0-", "-e1-")))
    edited("another lower bound", lambda entry: _set_offset_bound(entry, 10))
    edited("other counts of values", lambda entry: _set(entry, _VALUE_COUNTS, {1: 7}))
    edited("a deleted entry", lambda entry: _set_status(entry, ManifestEntryStatus.DELETED))
    edited("another sequence number", _set_sequence)
    rewritten("an entry less", lambda entries: entries[1:])
    rewritten("an entry twice", lambda entries: [*entries, entries[0]])
    rewritten("files of each other's partition", _exchanged_partitions)


def _set(entry: ManifestEntry, place: int, value: object) -> None:
    entry.data_file._data[place] = value


def _set_status(entry: ManifestEntry, status: ManifestEntryStatus) -> None:
    entry._data[0] = status


def _set_sequence(entry: ManifestEntry) -> None:
    entry._data[2] = 1


def _set_offset_bound(entry: ManifestEntry, value: int) -> None:
    bounds = dict(entry.data_file._data[_LOWER_BOUNDS])
    for field_id, bound in bounds.items():
        if bound == struct.pack("<q", 0):
            bounds[field_id] = struct.pack("<q", value)
    entry.data_file._data[_LOWER_BOUNDS] = bounds


def _exchanged_partitions(entries: list[ManifestEntry]) -> list[ManifestEntry]:
    first, second = entries[0].data_file._data, entries[1].data_file._data
    first[_PARTITION], second[_PARTITION] = second[_PARTITION], first[_PARTITION]
    return entries


def _bytes_of_lists() -> None:
    def faulty(name: str, damage: Callable[[FaultWorld], None]) -> None:
        def plant(world: FaultWorld) -> str:
            told = world.manifest_list().name
            damage(world)
            return told

        LISTS.fault(Damage.DAMAGED_METADATA, name=name)(plant)

    faulty("list is gone", lambda world: world.manifest_list().unlink())
    faulty("list is empty", lambda world: cut(world.manifest_list(), 0))
    faulty("half of the list", lambda world: cut(world.manifest_list(), 0.5))
    faulty("list without its last bytes", lambda world: cut(world.manifest_list(), 0.99))
    faulty("an earlier snapshot's list", _put_earlier_list)
    faulty(
        "another table's list",
        lambda world: _put(world, world.manifest_list("payments").read_bytes()),
    )
    for share in (0.001, 0.2, 0.5, 0.8, 0.9, 0.95, 0.98, 0.999):
        faulty(f"a bit of the list at {share}", lambda world, share=share: flip(world.manifest_list(), share))  # type: ignore[misc]


def _put(world: FaultWorld, content: bytes) -> None:
    world.manifest_list().write_bytes(content)


def _put_earlier_list(world: FaultWorld) -> None:
    earlier = world.metadata().snapshots[1]
    _put(world, path_of(earlier.manifest_list).read_bytes())


def _edits_of_lists() -> None:
    def edited(name: str, edit: Callable[[ManifestFile], None]) -> None:
        def change(manifests: list[ManifestFile]) -> list[ManifestFile]:
            edit(manifests[-1])
            return manifests

        rewritten(name, change)

    def rewritten(name: str, change: Callable[[list[ManifestFile]], list[ManifestFile]]) -> None:
        def plant(world: FaultWorld) -> str:
            told = world.manifest_list().name
            world.rewrite_manifest_list(change)
            return told

        LISTS.fault(Damage.DAMAGED_METADATA, name=f"list edited: {name}")(plant)

    edited("a higher least partition", lambda manifest: _set_partition(manifest, 2, 1))
    edited("a lower greatest partition", lambda manifest: _set_partition(manifest, 3, 0))
    edited("no added file", lambda manifest: _set_manifest(manifest, _ADDED_FILES, 0))
    edited("fewer rows", lambda manifest: _set_manifest(manifest, _ADDED_ROWS, 3))
    edited("another length", lambda manifest: _set_manifest(manifest, _LENGTH, manifest.manifest_length + 1))
    rewritten("a manifest less", lambda manifests: manifests[1:])
    rewritten("a manifest twice", lambda manifests: [*manifests, manifests[0]])


def _set_manifest(manifest: ManifestFile, place: int, value: object) -> None:
    manifest._data[place] = value


def _set_partition(manifest: ManifestFile, place: int, value: int) -> None:
    assert manifest.partitions is not None
    manifest.partitions[0]._data[place] = struct.pack("<i", value)


_bytes_of_manifests()
_edits_of_manifests()
_bytes_of_lists()
_edits_of_lists()
