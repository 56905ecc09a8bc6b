"""One planted fault: what is done, in which part of a table, and what ``fsck`` has to call it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from engine.fsck.report import Damage
from tests.faults.fault_world import FaultWorld


class Region(StrEnum):
    DATA_FILE = "data file"
    MANIFEST = "manifest"
    MANIFEST_LIST = "manifest list"
    METADATA = "metadata.json"
    PROPERTIES = "ledger and properties"
    CATALOG = "catalog"
    AUXILIARY = "auxiliary files"
    ABSENT = "what is absent"
    EXCHANGED = "what is exchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """``plant`` changes the world and returns a word that must be in the finding: a file's name, a partition.

    ``damages``: ``fsck`` gives at least one of these kinds. ``whole_catalog``: it hits the neighbour's table too.
    ``is_seen``: the daemon or the log door reads what is damaged, and has to say so.
    """

    name: str
    region: Region
    damages: frozenset[Damage]
    plant: Callable[[FaultWorld], str]
    whole_catalog: bool = False
    is_seen: bool = True


class Faults:
    """A table of faults that is filled by decorated functions."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.all: list[Fault] = []

    def fault(
        self, *damages: Damage, whole_catalog: bool = False, is_seen: bool = True, name: str = ""
    ) -> Callable[[Callable[[FaultWorld], str]], Callable[[FaultWorld], str]]:
        """The decorated function plants; its name, or ``name``, is the fault's."""

        def add(plant: Callable[[FaultWorld], str]) -> Callable[[FaultWorld], str]:
            named = name or plant.__name__.replace("_", " ")
            self.all.append(
                Fault(
                    name=named,
                    region=self.region,
                    damages=frozenset(damages),
                    plant=plant,
                    whole_catalog=whole_catalog,
                    is_seen=is_seen,
                )
            )
            return plant

        return add
