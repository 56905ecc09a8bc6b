"""Faults of the catalog, of files beside the tables, of what is not there, and of what stands in another's place."""

from __future__ import annotations

import shutil
from pathlib import Path

from engine.fsck.report import Damage
from engine.table.companion_folder import companion_folder
from tests.faults.fault import Faults, Region
from tests.faults.fault_world import FaultWorld, cut, flip, path_of

CATALOG = Faults(Region.CATALOG)
AUXILIARY = Faults(Region.AUXILIARY)
ABSENT = Faults(Region.ABSENT)
EXCHANGED = Faults(Region.EXCHANGED)

_ROW = "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = 'orders'"


@CATALOG.fault(Damage.DAMAGED_METADATA, whole_catalog=True)
def database_of_other_bytes(world: FaultWorld) -> str:
    world.database.write_bytes(b"not a database, but something else " * 600)
    return "database"


@CATALOG.fault(Damage.DAMAGED_METADATA, whole_catalog=True, is_seen=False)
def half_of_the_database(world: FaultWorld) -> str:
    cut(world.database, 0.5)
    return "catalog.db"


@CATALOG.fault(Damage.DAMAGED_METADATA, whole_catalog=True, is_seen=False)
def a_page_of_the_database_of_other_bytes(world: FaultWorld) -> str:
    content = bytearray(world.database.read_bytes())
    content[4096:8192] = b"\x5a" * 4096
    world.database.write_bytes(content)
    return "catalog.db"


@CATALOG.fault(Damage.DAMAGED_METADATA)
def row_with_a_path_that_is_none(world: FaultWorld) -> str:
    world.sql(_ROW, "nowhere at all")
    return "nowhere"


@CATALOG.fault(Damage.DAMAGED_METADATA)
def row_with_an_unknown_kind_of_path(world: FaultWorld) -> str:
    world.sql(_ROW, "gopher://orders/metadata.json")
    return "gopher"


@CATALOG.fault(Damage.DAMAGED_METADATA)
def row_that_names_a_manifest(world: FaultWorld) -> str:
    path = world.manifest_list()
    world.sql(_ROW, path.as_uri())
    return path.name


@CATALOG.fault(Damage.DAMAGED_METADATA)
def row_that_names_a_folder(world: FaultWorld) -> str:
    path = world.metadata_file().parent
    world.sql(_ROW, path.as_uri())
    return "orders"


@CATALOG.fault(Damage.UNREGISTERED_TABLE)
def row_without_a_path(world: FaultWorld) -> str:
    world.sql(_ROW, None)
    return "orders"


@CATALOG.fault(Damage.OLDER_STATE)
def row_of_two_commits_before(world: FaultWorld) -> str:
    path = world.older_metadata(2)
    world.sql(_ROW, path.as_uri())
    return path.name


@CATALOG.fault(Damage.OLDER_STATE)
def row_of_the_first_state(world: FaultWorld) -> str:
    path = world.older_metadata(6)
    world.sql(_ROW, path.as_uri())
    return path.name


@ABSENT.fault(Damage.LOST_RANGE)
def older_catalog_and_warehouse_beside_a_newer_log(world: FaultWorld) -> str:
    older = world.older_metadata(2)
    for path in older.parent.glob("*.metadata.json"):
        if path.name > older.name:
            path.unlink()
    world.sql(_ROW, older.as_uri())
    return "partition 1"


@ABSENT.fault(Damage.UNREGISTERED_TABLE, whole_catalog=True)
def database_is_gone(world: FaultWorld) -> str:
    world.database.unlink()
    return "orders"


@ABSENT.fault(Damage.UNREGISTERED_TABLE, whole_catalog=True)
def database_is_empty(world: FaultWorld) -> str:
    cut(world.database, 0)
    return "orders"


@ABSENT.fault(Damage.UNREGISTERED_TABLE)
def row_is_gone(world: FaultWorld) -> str:
    world.sql("DELETE FROM iceberg_tables WHERE table_name = 'orders'")
    return "orders"


@ABSENT.fault(Damage.UNREGISTERED_TABLE)
def row_in_another_namespace(world: FaultWorld) -> str:
    world.sql("UPDATE iceberg_tables SET table_namespace = 'elsewhere' WHERE table_name = 'orders'")
    return "orders"


@ABSENT.fault(Damage.DAMAGED_METADATA)
def table_folder_is_gone(world: FaultWorld) -> str:
    told = world.metadata_file().name
    shutil.rmtree(path_of(world.metadata().location))
    return told


@ABSENT.fault(Damage.DAMAGED_METADATA)
def metadata_folder_is_gone(world: FaultWorld) -> str:
    told = world.metadata_file().name
    shutil.rmtree(world.metadata_file().parent)
    return told


@ABSENT.fault(Damage.MISSING_FILE)
def data_folder_is_gone(world: FaultWorld) -> str:
    shutil.rmtree(path_of(world.metadata().location) / "data")
    return ".parquet"


@ABSENT.fault(Damage.MISSING_FILE)
def all_files_of_a_partition_are_gone(world: FaultWorld) -> str:
    shutil.rmtree(world.file(1, 0).parent)
    return "partition 1"


@AUXILIARY.fault(Damage.DAMAGED_FILE, is_seen=False)
def followers_state_is_cut(world: FaultWorld) -> str:
    path = _auxiliary(world)
    cut(path, 0.5)
    return path.name


@AUXILIARY.fault(Damage.DAMAGED_FILE, is_seen=False)
def followers_state_with_a_flipped_bit(world: FaultWorld) -> str:
    path = _auxiliary(world)
    flip(path, 0.6)
    return path.name


@AUXILIARY.fault(Damage.DAMAGED_FILE, is_seen=False)
def followers_state_is_empty(world: FaultWorld) -> str:
    path = _auxiliary(world)
    cut(path, 0)
    return path.name


@EXCHANGED.fault(Damage.EXCHANGED_TABLE, whole_catalog=True)
def names_of_two_tables(world: FaultWorld) -> str:
    rows = world.row("orders"), world.row("payments")
    world.sql("UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = 'orders'", rows[1])
    world.sql("UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = 'payments'", rows[0])
    return "orders"


@EXCHANGED.fault(Damage.EXCHANGED_TABLE, Damage.UNREGISTERED_TABLE)
def row_of_another_table(world: FaultWorld) -> str:
    world.sql(_ROW, world.row("payments"))
    return "orders"


@EXCHANGED.fault(Damage.UNREGISTERED_TABLE)
def metadata_of_another_table(world: FaultWorld) -> str:
    shutil.copy(world.metadata_file("payments"), world.metadata_file("orders"))
    return "orders"


@EXCHANGED.fault(Damage.SWAPPED_FILE)
def contents_of_two_files(world: FaultWorld) -> str:
    one, other = world.file(1, 0), world.file(1, 40)
    contents = one.read_bytes(), other.read_bytes()
    one.write_bytes(contents[1])
    other.write_bytes(contents[0])
    return one.name


@EXCHANGED.fault(Damage.SWAPPED_FILE)
def contents_of_two_partitions(world: FaultWorld) -> str:
    one, other = world.file(0, 80), world.file(1, 120)
    contents = one.read_bytes(), other.read_bytes()
    one.write_bytes(contents[1])
    other.write_bytes(contents[0])
    return one.name


def _auxiliary(world: FaultWorld) -> Path:
    (path,) = path_of(companion_folder(world.metadata().location)).rglob("*.aux")
    return path
