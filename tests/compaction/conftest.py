"""A broker's folder and a catalog, as tiering's tests have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tiering.tiering_world import TieringWorld


@pytest.fixture
def world(tmp_path: Path) -> TieringWorld:
    return TieringWorld(tmp_path)
