"""Killed at any point, an erasure leaves the table of before or of after, and given again it ends its work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from floeberg.processes.tied_process import tied

ROOT = Path(__file__).resolve().parents[2]
EVERY = ["every"] if os.environ.get("FLOEBERG_TEST_EVERY_CRASH") else []
"""Each time that a point is reached, in place of one."""


@pytest.mark.timeout(600)
def test_erasure_killed_at_any_point_is_done_by_the_next(tmp_path: Path) -> None:
    ended = subprocess.run(
        tied([sys.executable, "-m", "tests.crash.killed_erasures", str(tmp_path), *EVERY]),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    lines: list[dict[str, Any]] = [json.loads(line) for line in ended.stdout.splitlines()]
    reached = {line["by"]: line["reached"] for line in lines if "reached" in line}
    kills = [line for line in lines if "reached" not in line]
    assert reached.keys() == {"key", "where"}
    for by, points in reached.items():
        assert {"replacements-written", "replacements-verified", "catalog-changed"} <= {*points}
        mine = [kill for kill in kills if kill["by"] == by]
        assert {kill["point"] for kill in mine} == {*points}
        assert len(mine) == (len(points) if EVERY else len({*points}))
        # Both sides of the commit were seen.
        assert {kill["is_done"] for kill in mine} == {False, True}
    assert [kill for kill in kills if not kill["killed"]] == []
