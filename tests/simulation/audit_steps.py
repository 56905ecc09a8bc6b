"""Looking at everything, and what somebody else does to a table."""

from __future__ import annotations

import random

from pyiceberg.table import Table

from tests.simulation.audit_latest import is_latest
from tests.simulation.catalog import SimulatedCatalog
from tests.simulation.partition import Partition
from tests.simulation.world import World


def audit(world: World, dice: random.Random) -> str | None:
    audit_tables(world)
    return "everything is compared"


def audit_tables(world: World) -> None:
    for partition in world.cluster.partitions:
        world.auditor.table(partition)
    for name, metadata in world.auditor.reading.tables():
        if is_latest(metadata):
            for text in world.auditor.latest.wrong(metadata):
                world.auditor.found("latest", None, f"{'.'.join(name)}: {text}")
    world.counts["audits"] += 1


def audit_doors(world: World, dice: random.Random) -> None:
    """Every daemon serves what the tables hold. Only when nothing is wrong with the world."""
    for partition in world.cluster.partitions:
        for seat in world.seats:
            if seat.process is not None:
                world.auditor.served(partition, seat.process.door, dice)


def read(world: World, dice: random.Random) -> str | None:
    """Consumers read through a daemon that reaches catalog and store."""
    well = [one for one in world.seats if one.catalog_faults.away == 0 and one.store_faults.state is None]
    doors = [seat.process.door for seat in well if seat.process is not None and not seat.busy]
    partition = world.partition(dice)
    if not doors or partition is None:
        return None
    world.auditor.served(partition, dice.choice(doors), dice)
    return f"consumers read {partition.who}"


def replaced_files_go(world: World, dice: random.Random) -> str | None:
    """Somebody expires snapshots, and the files go that only they named."""
    shared = {
        path for _, one in world.auditor.reading.tables() if is_latest(one) for path in world.auditor.reading.named(one)
    }
    gone = [
        path
        for path in sorted(world.auditor.replaced - shared)
        if world.store.objects.pop(path.removeprefix("s3://"), None)
    ]
    world.auditor.latest.taken_away.update(gone)
    return f"{len(gone)} files that no table names any more are removed" if gone else None


def foreign_delete(world: World, dice: random.Random) -> str | None:
    """An engine that knows nothing of us drops a data file from a table (DELETE of a whole file)."""
    catalog = SimulatedCatalog(world.catalog, "auditor")
    found: list[tuple[Partition, Table, object]] = []
    for name in sorted(world.catalog.tables):
        table = catalog.load_table(name)
        if is_latest(table.metadata):
            continue
        snapshot = table.current_snapshot()
        for manifest in snapshot.manifests(table.io) if snapshot is not None else ():
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                partition = next(
                    one
                    for one in world.cluster.partitions
                    if one.who.topic_id == table.metadata.properties["floeberg.topic_id"]
                    and one.who.partition == entry.data_file.partition[0]
                )
                found.append((partition, table, entry.data_file))
    if not found:
        return None
    partition, table, file = dice.choice(found)
    world.auditor.wound(partition, table.metadata, file.file_path)
    transaction = table.transaction()
    overwrite = transaction.update_snapshot().overwrite()
    overwrite.delete_data_file(file)
    overwrite.commit()
    table._do_commit(transaction._updates, transaction._requirements)
    world.note("foreign-delete")
    return f"somebody deletes {file.file_path.rpartition('/')[2]} from the table of {partition.who}"
