"""Every planted fault is named by fsck, keeps to its table, and gives no consumer a record that was never written."""

from __future__ import annotations

import pytest

from tests.faults.fault import Fault
from tests.faults.fault_world import FaultWorld
from tests.faults.planted import FAULTS, shortcomings
from tests.faults.sights import look

# One world for all: made once, put back before each.


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> FaultWorld:
    return FaultWorld(tmp_path_factory.mktemp("faults"))


def test_whole_warehouse_has_no_finding_and_goes_on(world: FaultWorld) -> None:
    seen = look(world)
    assert seen.findings == ()
    assert seen.wrong == ()
    assert set(seen.problems.values()) == {()}
    assert seen.went_on == set(world.truth)


def test_names_of_faults_are_their_own() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.region}: {fault.name}")
def test_fault_is_named_and_isolated_and_gives_no_wrong_record(world: FaultWorld, fault: Fault) -> None:
    world.restore()
    told = fault.plant(world)
    assert list(shortcomings(world, fault, told, look(world))) == []
