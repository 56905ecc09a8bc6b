"""What goes wrong with the machines that daemons run on: disks, memory, clocks."""

from __future__ import annotations

import random
import shutil

from tests.simulation.daemon import INDEX_FOLDER
from tests.simulation.spool_watch import spool_of
from tests.simulation.world import World


def flip_byte(world: World, dice: random.Random) -> str | None:
    seat = dice.choice(world.places)
    seat.damage.waiting.append(("flip-byte", dice))
    return f"a bit of the next file of {seat.name} will flip"


def bad_memory(world: World, dice: random.Random) -> str | None:
    seat = dice.choice(world.places)
    seat.damage.waiting.append(("bad-memory", dice))
    return f"a value of the next file of {seat.name} will change before it is written"


def clock_jump(world: World, dice: random.Random) -> str | None:
    node = dice.choice(sorted(world.cluster.nodes.values(), key=lambda node: node.node_id))
    error_ms = dice.choice((-3_600_000, -50, 50, 86_400_000, 0))
    node.clock.wall_error_ms = error_ms
    world.note("clock-jump")
    return f"the wall clock of node {node.node_id} is off by {error_ms} ms"


def lose_spool(world: World, dice: random.Random) -> str | None:
    node = dice.choice(sorted(world.cluster.nodes.values(), key=lambda node: node.node_id))
    if not spool_of(node).exists():
        return None
    shutil.rmtree(spool_of(node))
    world.spools.lost.add(node.node_id)
    world.note("spool-lost")
    return f"somebody deletes the spool of node {node.node_id}"


def old_index(world: World, dice: random.Random) -> str | None:
    """The index of keys is lost, or an older copy of it comes back."""
    seat = world.seat(dice)
    if seat is None:
        return None
    index = seat.data_dir(world.root) / INDEX_FOLDER
    world.stop(seat)
    if not index.exists():
        return None
    before = index.with_name("index-of-before")
    is_older = before.exists() and dice.random() < 0.6
    if not before.exists():
        shutil.copytree(index, before)
    shutil.rmtree(index)
    if is_older:
        shutil.copytree(before, index)
    world.note("old-index")
    return f"the index of keys of {seat.name} is {'an older one' if is_older else 'lost'}"
