"""The name under which a compiled kernel is kept follows the sources of all that it is made of."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from engine.errors import Invalid
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
    cache.sources_of.cache_clear()
    locator = KernelCacheLocator.from_function(name_of, str(path))
    assert locator is not None
    return locator.get_disambiguator()


@pytest.mark.parametrize("changed", ["outer.py", "room/inner.py", "room/codes.py", "words.py"])
def test_kernel_is_kept_under_another_name_once_a_source_of_it_changes(sources: Path, changed: str) -> None:
    before = name_of(sources / "outer.py")
    (sources / changed).write_text((sources / changed).read_text() + "\n# changed\n")
    assert name_of(sources / "outer.py") != before


def test_kernel_keeps_its_name_where_others_change(sources: Path) -> None:
    before = name_of(sources / "outer.py")
    (sources / "other.py").write_text("SHORT = 1\n")
    assert name_of(sources / "outer.py") == before


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """That of the sources, and the user's own; neither is there yet."""
    packed, own = tmp_path / "packed", tmp_path / "own" / "floeberg" / "kernels"
    monkeypatch.setattr(cache, "PACKED", packed)
    monkeypatch.setattr(cache.config, "CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    return packed, own


def place_of(sources: Path) -> Path:
    locator = KernelCacheLocator.from_function(name_of, str(sources / "outer.py"))
    assert locator is not None
    return Path(locator.get_cache_path())


def keep(sources: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    name = f"outer.name_of-{name_of(sources / 'outer.py')}.py{sys.version_info.major}{sys.version_info.minor}"
    for file in (f"{name}.nbi", f"{name}.1.nbc"):
        (folder / file).touch()


def test_kernel_is_read_where_it_is_kept_though_nobody_may_write_there(
    sources: Path, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    packed, own = folders
    keep(sources, packed)
    monkeypatch.setattr(cache, "_can_keep", lambda folder: folder == own)
    assert place_of(sources) == packed
    (sources / "words.py").write_text("LONG = 1\n")
    name_of(sources / "outer.py")
    assert place_of(sources) == own, "what is kept is of other sources"


def test_kernel_whose_code_was_never_written_is_compiled_again(sources: Path, folders: tuple[Path, Path]) -> None:
    keep(sources, folders[1])
    assert place_of(sources) == folders[1]
    next(folders[1].glob("*.nbc")).unlink()
    assert place_of(sources) == folders[0]


def test_kernel_is_kept_under_another_name_where_bounds_are_checked(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = set()
    for is_checked in (0, 1):
        monkeypatch.setattr(cache.config, "BOUNDSCHECK", is_checked)
        cache._compiler.cache_clear()
        names.add(name_of(sources / "outer.py"))
    monkeypatch.undo()
    cache._compiler.cache_clear()
    assert len(names) == 2


def test_no_folder_for_kernels_is_told_with_what_to_set(
    sources: Path, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_can_keep", lambda _folder: False)
    with pytest.raises(Invalid, match="can be kept nowhere") as error:
        place_of(sources)
    assert "NUMBA_CACHE_DIR" in str(error.value.next_step)


def test_functions_of_others_are_left_to_numba(sources: Path) -> None:
    assert KernelCacheLocator.from_function(name_of, str(sources.parent / "elsewhere.py")) is None
