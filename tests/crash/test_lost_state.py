"""What lies beside the tables may be lost, at once and behind a crash: it is made again, or said to be missing."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from engine.durable_file import TEMPORARY_SUFFIX
from engine.fault_points import FaultPoint, armed
from floeberg.daemon.door_token import TOKEN_FILE, log_door_tokens
from floeberg.settings import BrokerSettings, Settings
from tests.crash.door_client import STATE, DoorClient
from tests.crash.small_history import SEGMENT_RECORDS, BrokersPart, audited, do_the_daemons_work
from tests.tiering.tiering_world import TieringWorld

RUNBOOK = Path(__file__).resolve().parents[2] / "docs" / "runbook.md"


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def part(tmp_path: Path) -> BrokersPart:
    return BrokersPart.begin(tmp_path / "world")


def work_until(point: FaultPoint, part: BrokersPart) -> None:
    """A daemon's work up to a point, where it is killed."""

    def kill(reached: FaultPoint) -> None:
        if reached is point:
            raise Killed

    with armed(kill), pytest.raises(Killed):
        do_the_daemons_work(part.root)


def assert_whole(part: BrokersPart) -> None:
    found = audited(part)
    assert found.pop("records") > 0
    assert found == {"findings": [], "short": [], "spooled": [], "raw": [], "unswept": []}


def auxiliary_files(part: BrokersPart) -> list[Path]:
    return sorted((part.root / "data" / "warehouse").rglob("*.aux"))


def lose(paths: Iterable[Path]) -> None:
    for path in paths:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.mark.parametrize("point", [FaultPoint.SPOOL_LINK_MADE, FaultPoint.RANGES_VERIFIED, FaultPoint.LOOP_TOLD])
def test_spool_that_is_gone_behind_a_crash_is_made_again(part: BrokersPart, point: FaultPoint) -> None:
    part.act(1)
    work_until(point, part)
    spool = TieringWorld.reopen(part.root).spool_dir
    assert list(spool.rglob("*.log"))
    lose([spool])
    do_the_daemons_work(part.root)
    assert_whole(part)


def test_everything_in_the_data_directory_but_catalog_and_warehouse_is_made_again(part: BrokersPart) -> None:
    part.act(1)
    do_the_daemons_work(part.root)
    part.act(2)
    work_until(FaultPoint.COPY_PROVEN, part)
    data = part.root / "data"
    beside = [path for path in data.iterdir() if not path.name.startswith(("catalog.db", "warehouse"))]
    assert {path.name for path in beside} == {"cache", "sweep", TOKEN_FILE}
    lose(beside)
    do_the_daemons_work(part.root)
    assert all(path.exists() for path in beside)
    assert_whole(part)


def test_auxiliary_state_that_is_gone_is_said_to_be_and_kept_again_when_the_broker_copies_again(
    part: BrokersPart,
) -> None:
    for act in (1, 2):
        part.act(act)
        do_the_daemons_work(part.root)
    files = auxiliary_files(part)
    assert len(files) == 2
    lose(files)
    world = TieringWorld.reopen(part.root)
    loop = world.loop()
    loop.cycle()
    door = DoorClient(world, loop, segment_records=SEGMENT_RECORDS)
    (history,) = world.broker.port.partitions(["history"])

    async def ask() -> None:
        for name in ("leader-epoch", "producer-snapshot"):
            status, body = await door.ask("GET", history, f"/index/{name}")
            assert (status, files[0].name in body.decode()) == (404, True)
        for name in ("/records", "/index/offset", "/index/timestamp"):
            assert (await door.ask("GET", history, name))[0] == 200
        assert (await door.ask("POST", history, "/copy", body=STATE.to_bytes()))[0] == 200
        assert await door.ask("GET", history, "/index/leader-epoch") == (200, STATE.leader_epochs)

    asyncio.run(ask())
    part.act(3)
    do_the_daemons_work(part.root)
    assert_whole(part)


def register_by_the_runbook(part: BrokersPart) -> None:
    """Run the runbook's own program for a lost catalog, as an operator would."""
    (program,) = (
        code for code in re.findall(r"```python\n(.*?)```", RUNBOOK.read_text(), re.DOTALL) if "register_table" in code
    )
    program = program.replace('"floeberg-data"', repr(str(part.root / "data")))
    exec(compile(program, str(RUNBOOK), "exec"), {"__name__": "runbook"})


def tables(part: BrokersPart) -> dict[str, Any]:
    world = TieringWorld.reopen(part.root)
    names = [(*identifier,) for identifier in world.catalog.list_tables("kafka")]
    return {name[-1]: world.catalog.load_table(name) for name in names}


def test_tables_and_their_files_alone_are_enough_to_go_on(part: BrokersPart) -> None:
    for act in (1, 2):
        part.act(act)
        do_the_daemons_work(part.root)
    before = {name: table.metadata_location for name, table in tables(part).items()}
    spool = TieringWorld.reopen(part.root).spool_dir
    lose([spool, part.root / "latest", *(path for path in (part.root / "data").iterdir() if path.name != "warehouse")])
    register_by_the_runbook(part)
    assert {name: table.metadata_location for name, table in tables(part).items()} == before
    assert_whole(part)
    part.act(3)
    do_the_daemons_work(part.root)
    assert_whole(part)


def test_lost_catalog_is_made_again_from_the_metadata_that_covers_most(
    part: BrokersPart,
) -> None:
    """A crash left a metadata file that the catalog never named; another one of the same number covers more. The grace
    of the former is not over."""
    part.act(1)
    do_the_daemons_work(part.root)
    part.more_orders()
    work_until(FaultPoint.METADATA_DURABLE, part)
    part.more_orders()
    work_until(FaultPoint.SIGHTINGS_KEPT, part)
    committed = Path(tables(part)["orders"].metadata_location.removeprefix("file://"))
    number = committed.name.split("-")[0]
    same = sorted(committed.parent.glob(f"{number}-*.metadata.json"))
    assert committed in same
    assert len(same) == 2
    lose((part.root / "data").glob("catalog.db*"))
    register_by_the_runbook(part)
    assert tables(part)["orders"].metadata_location == committed.as_uri()
    do_the_daemons_work(part.root)
    assert_whole(part)


def test_lost_catalog_may_come_back_with_a_commit_it_never_had(
    part: BrokersPart,
) -> None:
    part.act(1)
    do_the_daemons_work(part.root)
    part.more_orders()
    work_until(FaultPoint.METADATA_DURABLE, part)
    lose((part.root / "data").glob("catalog.db*"))
    register_by_the_runbook(part)
    line = json.loads(tables(part)["orders"].metadata.properties["floeberg.ledger.0"])
    assert line["end"] == 3 * SEGMENT_RECORDS
    do_the_daemons_work(part.root)
    assert_whole(part)


def test_token_is_made_where_a_process_of_the_same_id_ended_in_the_middle_of_it(tmp_path: Path) -> None:
    """In a container, every start of the daemon has the same process id."""
    settings = Settings(broker=BrokerSettings(bootstrap="none:1", log_dirs=(tmp_path,)), data_dir=tmp_path)
    (tmp_path / f"{TOKEN_FILE}.{os.getpid()}{TEMPORARY_SUFFIX}").write_text("half a tok")
    token = log_door_tokens(settings)[0]
    assert len(token) > 20
    assert log_door_tokens(settings)[0] == token
    assert [path.name for path in tmp_path.iterdir()] == [TOKEN_FILE]
