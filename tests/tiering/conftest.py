"""A broker's folder, a catalog and a loop over both, with the rewriting done in the test's own process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tiering.tiering_world import TieringWorld


@pytest.fixture
def world(tmp_path: Path) -> TieringWorld:
    return TieringWorld(tmp_path)
