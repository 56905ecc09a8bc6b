"""The runbook says what is so: it has every metric, waiting reason and bound there is, and none that there is not."""

from __future__ import annotations

import os
import re
from errno import EACCES, ECONNREFUSED, EDQUOT, EFBIG, EMFILE, ENOSPC, EROFS
from pathlib import Path

import pytest

from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from floeberg.daemon.bound_sources import LOG_DISK, OPEN_FILES, WAREHOUSE_DISK
from serving.status.metrics import ERROR_KINDS
from tests.faults.broken_world import BrokenWorld
from tests.monitoring.everything import samples_of_everything
from tests.tiering.tiering_world import TieringWorld
from tiering.planner import Waiting

ROOT = Path(__file__).resolve().parent.parent
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text()
CODE = [code.replace("\\|", "|") for code in re.findall(r"`([^`\n]+)`", RUNBOOK)]


def section(title: str) -> str:
    return RUNBOOK.split(f"\n## {title}\n")[1].split("\n## ")[0]


def first_cells(title: str) -> list[str]:
    """The code in the first column of a section's tables, the heads left out."""
    rows = re.findall(r"^\| (.+?) \|", section(title), re.MULTILINE)
    return [code for row in rows for code in re.findall(r"`([^`]+)`", row)]


def test_every_metric_is_in_the_runbook_and_every_metric_of_the_runbook_exists() -> None:
    names = {sample.name for sample in samples_of_everything()}
    told = {name for code in CODE for name in re.findall(r"(?:floeberg|process)_[a-z_]+", code)}
    whole = {re.sub(r"_(bucket|count|sum)$", "", name) for name in names}
    assert whole <= told, f"not in the runbook: {sorted(whole - told)}"
    assert told <= names | whole, f"the program has no {sorted(told - names - whole)}"
    assert whole == set(first_cells("Every metric"))
    elsewhere = "\n".join(path.read_text() for path in (ROOT / "docs").glob("*.md") if path.name != "runbook.md")
    asked = set(re.findall(r"\bfloeberg_[a-z_]+(?:_seconds|_bytes|_records|_files|_total|_info|_way)\b", elsewhere))
    assert asked
    assert asked <= names | whole, f"the program has no {sorted(asked - names - whole)}"


def test_every_reason_to_wait_is_in_the_runbook_and_no_other() -> None:
    reasons = {reason.name.lower() for reason in Waiting}
    assert set(first_cells("Why a partition waits")) == reasons
    used = {one for code in CODE for group in re.findall(r'reason=~?"([^"]+)"', code) for one in group.split("|")}
    assert used
    assert used <= reasons


def test_every_kind_of_error_is_explained() -> None:
    table = RUNBOOK.split("**Four kinds of error**")[1].split("\n## ")[0]
    assert re.findall(r"^\| `([a-z_]+)` \|", table, re.MULTILINE) == list(ERROR_KINDS)


def test_every_bound_is_in_the_runbook(tmp_path: Path) -> None:
    reader = LogReader(file_index=FileIndex())
    spool = "spool_max_bytes"
    assert set(first_cells("Bound near")) == {spool, WAREHOUSE_DISK, LOG_DISK, OPEN_FILES, *reader.memory_use()}
    reader.close()


@pytest.mark.parametrize(
    "title",
    [
        "Partition stopped",
        "Partition failing",
        "Daemon problem",
        "Schema registry away",
        "No copies asked for",
        "Files are not removed",
    ],
)
def test_texts_of_problems_are_those_of_the_program(title: str) -> None:
    rooms = ("engine", "topics", "workers", "tiering", "compaction", "retention", "floeberg", "serving")
    source = "\n".join(path.read_text() for room in rooms for path in sorted((ROOT / room).rglob("*.py")))
    source = source.replace("{FILE_NAME}", "partition.metadata").replace("{METADATA_TOPIC}", "__remote_log_metadata")
    of_the_system = [
        "CERTIFICATE_VERIFY_FAILED",
        "timed out",
        "Name or service not known",
        *(os.strerror(number) for number in (ECONNREFUSED,)),
    ]
    of_the_system += [os.strerror(number) for number in (EACCES, EDQUOT, EFBIG, EMFILE, ENOSPC, EROFS)]
    texts = first_cells(title)
    assert texts
    unknown = [
        text
        for text in texts
        if text not in of_the_system and not all(piece in source for piece in text.split("…"))  # … stands for a value
    ]
    assert not unknown


def test_every_link_inside_the_runbook_leads_to_a_heading() -> None:
    anchors = {
        re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.+)$", RUNBOOK, re.MULTILINE)
    }
    linked = set(re.findall(r"\]\(#([a-z0-9-]+)\)", RUNBOOK))
    assert linked
    assert linked <= anchors


def test_catalog_that_was_lost_is_made_again_from_the_warehouse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runbook's own lines, run as they stand there; then the loop goes on from the ledger it finds."""
    world = BrokenWorld(tmp_path)
    loop = world.watched_loop()
    for _ in range(3):
        world.produce(world.bad, world.good)
        world.cycle(loop)
    (tmp_path / "floeberg-data").symlink_to(tmp_path / "data")
    for file in (tmp_path / "data").glob("catalog.db*"):
        file.unlink()
    (lines,) = re.findall(r"^```python\n(.*?)^```", section("Backup and restore"), re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(lines, "runbook.md", "exec"), {})
    world.catalog = TieringWorld(tmp_path, world.broker).catalog
    loop = world.watched_loop()
    assert world.cycle(loop).commits == 0
    world.produce(world.bad, world.good)
    assert world.cycle(loop).commits == 1
    world.all_is_well()
