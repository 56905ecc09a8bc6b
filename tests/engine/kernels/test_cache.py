"""The name under which a compiled kernel is kept follows the sources of all that it is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.kernels import cache
from engine.kernels.cache import KernelCacheLocator


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "room").mkdir()
    (tmp_path / "outer.py").write_text("from engine.room.inner import load\nfrom engine.words import LONG\n")
    (tmp_path / "room" / "inner.py").write_text("from engine.room import codes as op\n")
    (tmp_path / "room" / "codes.py").write_text("LONG = 0\n")
    (tmp_path / "words.py").write_text("from engine.outer import LONG  # a ring ends\n")
    (tmp_path / "other.py").write_text("SHORT = 0\n")
    monkeypatch.setattr(cache, "_ENGINE", tmp_path)
    return tmp_path


def name_of(path: Path) -> str:
    cache._read.cache_clear()
    cache._digest.cache_clear()
    locator = KernelCacheLocator.from_function(name_of, str(path))
    return str(locator.get_disambiguator())


@pytest.mark.parametrize("changed", ["outer.py", "room/inner.py", "room/codes.py", "words.py"])
def test_kernel_is_kept_under_another_name_once_a_source_of_it_changes(sources: Path, changed: str) -> None:
    before = name_of(sources / "outer.py")
    (sources / changed).write_text((sources / changed).read_text() + "\n# changed\n")
    assert name_of(sources / "outer.py") != before


def test_kernel_keeps_its_name_where_others_change(sources: Path) -> None:
    before = name_of(sources / "outer.py")
    (sources / "other.py").write_text("SHORT = 1\n")
    assert name_of(sources / "outer.py") == before


def test_functions_of_others_are_left_to_numba(sources: Path) -> None:
    assert KernelCacheLocator.from_function(name_of, str(sources.parent / "elsewhere.py")) is None
