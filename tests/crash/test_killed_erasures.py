"""Killed at any point, an erasure leaves the table of before or of after, and given again it ends its work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.kill_programs import EVERY, told_by


@pytest.mark.timeout(600)
def test_erasure_killed_at_any_point_is_done_by_the_next(tmp_path: Path) -> None:
    lines = told_by("killed_erasures", tmp_path, patience_s=600)
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
