"""All planted faults, and what is wrong with how one of them was met."""

from __future__ import annotations

from collections.abc import Iterator

from tests.faults.catalog_faults import ABSENT, AUXILIARY, CATALOG, EXCHANGED
from tests.faults.fault import Fault
from tests.faults.fault_world import FaultWorld
from tests.faults.file_faults import FILES
from tests.faults.manifest_faults import LISTS, MANIFESTS
from tests.faults.metadata_faults import METADATA, PROPERTIES
from tests.faults.sights import Sights

FAULTS: tuple[Fault, ...] = tuple(
    fault
    for table in (FILES, MANIFESTS, LISTS, METADATA, PROPERTIES, CATALOG, AUXILIARY, ABSENT, EXCHANGED)
    for fault in table.all
)


def shortcomings(world: FaultWorld, fault: Fault, told: str, seen: Sights) -> Iterator[str]:
    """One sentence each; none where the fault was named, isolated, and gave nobody a wrong record."""
    named = [finding for finding in seen.findings if finding.damage in fault.damages]
    if not any(told in str(finding) and finding.next_step for finding in named):
        yield f"fsck does not name {told!r} as {sorted(fault.damages)}, but says: {[*map(str, seen.findings)]}"
    if seen.wrong:
        yield f"a consumer got other records than were written: {seen.wrong}"
    if fault.is_seen and not seen.problems["orders"]:
        yield "neither the daemon nor the log door says anything"
    if any("not one of ours" in problem for told in seen.problems.values() for problem in told):
        yield f"an error that nobody foresaw: {seen.problems}"
    if not fault.whole_catalog and (seen.problems["payments"] or world.neighbour not in seen.went_on):
        yield f"the neighbour's table is hit as well: {seen.problems['payments']}, went on: {seen.went_on}"
