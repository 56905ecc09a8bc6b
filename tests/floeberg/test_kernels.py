"""Kernels are compiled before they are needed, and which they are is known without compiling them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name

import pytest
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher

from engine.kernels import cache
from floeberg import kernels
from floeberg.kernels import Progress, compile_kernels, load_kernels

_SMALL = "engine.parquet.thrift_kernels"


def is_kept(kernel: Dispatcher) -> bool:
    return isinstance(kernel._cache, FunctionCache)


def test_kernels_found_in_the_sources_are_those_that_numba_keeps() -> None:
    load_kernels()
    compiled = {
        f"{module.__name__}.{found.py_func.__name__}"
        for name, module in list(sys.modules.items())
        if name.startswith("engine.")
        for found in vars(module).values()
        if isinstance(found, Dispatcher)
        and found.py_func.__module__ == name
        and type(found._cache).__name__ != "NullCache"
    }
    in_sources = {
        f"{file.relative_to(kernels._ENGINE.parent).with_suffix('').as_posix().replace('/', '.')}.{name}"
        for file, names in kernels._kernels()
        for name in names
    }
    assert in_sources == compiled


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation that has one room of kernels, of which none is kept; returns where they will be."""
    folder = tmp_path / "kernels"
    # Another level of optimization is another compiler: nothing that is kept fits.
    for name, value in {"NUMBA_OPT": "1", "NUMBA_CACHE_DIR": str(folder)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(cache, "_folders", lambda: (folder,))
    monkeypatch.setattr(cache.config, "OPT", 1)
    cache._compiler.cache_clear()
    file = kernels._ENGINE / "parquet" / "thrift_kernels.py"
    names = dict(kernels._kernels())[file]
    monkeypatch.setattr(kernels, "_kernels", lambda: [(file, names)])
    yield folder
    cache._compiler.cache_clear()


def test_missing_kernels_are_compiled_once_and_progress_is_told(small: Path) -> None:
    told: list[Progress] = []
    compile_kernels({"json"}, tell=told.append)
    assert (told[0].compiled, told[0].seconds_left) == (0, None)
    assert told[-1].compiled == told[-1].count > 0
    assert kernels._missing() == {}
    written = {file: file.stat().st_mtime_ns for file in small.iterdir()}
    assert len(written) == 2 * sum(len(names) for _, names in kernels._kernels())
    compile_kernels({"json"}, tell=told.append)
    assert told[-1].compiled == told[-1].count
    assert {file: file.stat().st_mtime_ns for file in small.iterdir()} == written


def test_kernels_of_formats_that_no_topic_has_are_left(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_missing", lambda: {"avro": (_SMALL,)})
    compile_kernels({"json"}, tell=lambda _progress: pytest.fail("nothing is to be done"))
    assert not small.exists()


def test_a_process_that_fails_is_told_with_the_reason(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_LOCATOR_CLASSES", "no.such.Class")
    with pytest.raises(kernels.Unavailable, match=f"kernels of {_SMALL} don't compile: .*Failed to import"):
        compile_kernels(tell=lambda _progress: None)


def test_inner_function_refuses_a_call_from_python() -> None:
    module = resolve_name("engine.kernels.memory")
    load_kernels()
    with pytest.raises(TypeError, match="called by kernels only"):
        module.word(0, 0)


def test_program_says_nothing_where_all_is_kept() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "floeberg.kernels"], capture_output=True, text=True, check=True, timeout=250
    )
    compiled = subprocess.run(
        [sys.executable, "-m", "floeberg.kernels"], capture_output=True, text=True, check=True, timeout=60
    )
    assert compiled.stdout + compiled.stderr == "", ran
