"""Kernels compiled before they are needed: all of them, in processes side by side, with a word on how far they are.

As a program, ``python -m floeberg.kernels``, it compiles what is not kept yet, which installing does.
"""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name

import structlog

from engine.errors import Unavailable
from engine.formats.format_facts import ENVELOPES, FORMATS

MOST_PROCESSES = 4
"""One a format and one for the rest; each takes some 300 MiB."""

TELL_SECONDS = 5.0

_log = structlog.get_logger(__name__)
_ENGINE = Path(__file__).resolve().parent.parent / "engine"
_FORMAT_ROOM = "formats"
_KERNEL = re.compile(r"^@njit\((?!nogil=).*\)(?:  # .*)?\ndef (\w+)\(", re.MULTILINE)
_COMPILED = re.compile(r"^@(?:inner|njit)\b", re.MULTILINE)
_SHARED = "shared"
"""The group of kernels that every format needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """``seconds_left`` is an estimate, None at first."""

    compiled: int
    count: int
    seconds_left: float | None

    def __str__(self) -> str:
        left = "" if self.seconds_left is None else f", about {self.seconds_left:.0f} s left"
        return f"compiling kernels, which is done once: {self.compiled} of {self.count}{left}"


Tell = Callable[[Progress], None]


def tell_person(progress: Progress) -> None:
    print(progress, file=sys.stderr, flush=True)


def tell_log(progress: Progress) -> None:
    left = progress.seconds_left
    _log.info(
        "compiling_kernels",
        compiled=progress.compiled,
        count=progress.count,
        seconds_left=None if left is None else round(left),
    )


def load_kernels() -> None:
    """Import every kernel into this process, where those that are kept take about a second."""
    codecs = (facts.codec for facts in FORMATS.values())
    for module in (*(module for group in _groups().values() for module in group), *codecs, *ENVELOPES.values()):
        resolve_name(module)


def compile_kernels(formats: Collection[str] | None = None, *, tell: Tell) -> None:
    """See that the kernels which ``formats`` need (None: all formats) are kept; takes milliseconds where they are.

    ``tell`` hears of the progress when it begins, every few seconds, and when it ends. Raises ``Unavailable`` where a
    kernel does not compile.
    """
    wanted = None if formats is None else {*formats, _SHARED}
    missing = {name: group for name, group in _missing().items() if wanted is None or name in wanted}
    if not missing:
        return
    board = _Board(sum(map(_function_count, missing.values())), tell)
    processes = min(len(missing), len(os.sched_getaffinity(0)), MOST_PROCESSES)
    # The longest first.
    groups = sorted(missing.values(), key=_function_count, reverse=True)
    with board, ThreadPoolExecutor(processes) as pool:
        list(pool.map(lambda modules: _compile_in_process(modules, board), groups))


class _Board:
    """How far all processes together are."""

    def __init__(self, count: int, tell: Tell) -> None:
        self._count, self._tell = count, tell
        self._compiled = 0
        self._started = time.monotonic()
        self._ended = threading.Event()
        self._teller = threading.Thread(target=self._tell_on, name="kernels", daemon=True)

    def __enter__(self) -> _Board:
        self._tell(self._progress())
        self._teller.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ended.set()
        self._teller.join()
        if exc_info[0] is None:
            self._compiled = self._count
            self._tell(self._progress())

    def add(self, functions: int) -> None:
        self._compiled += functions

    def _tell_on(self) -> None:
        while not self._ended.wait(TELL_SECONDS):
            self._tell(self._progress())

    def _progress(self) -> Progress:
        left = None
        if self._compiled:
            taken = time.monotonic() - self._started
            left = taken * (self._count - self._compiled) / self._compiled
        return Progress(compiled=self._compiled, count=self._count, seconds_left=left)


def _compile_in_process(modules: Sequence[str], board: _Board) -> None:
    command = [sys.executable, "-m", "floeberg.kernels", *modules]
    # Numba colours the text of every overload that it tries and does not take, which nobody sees.
    plain = {"NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING": "1"}
    environment = {**os.environ, **plain, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None, "it was asked for"
        assert process.stderr is not None, "it was asked for"
        told, expected = 0, _function_count(modules)
        for _ in process.stdout:
            told += 1
            board.add(int(told <= expected))
        problem = process.stderr.read()
    if process.returncode:
        raise Unavailable(
            f"The kernels of {', '.join(modules)} don't compile: {(problem.strip().splitlines() or ['?'])[-1]}",
            next_step=f"give it memory (300 MiB a process); python -m floeberg.kernels {modules[0]} shows more",
        )
    board.add(max(0, expected - told))


def _groups() -> dict[str, tuple[str, ...]]:
    """The modules that have kernels, by the format whose they are."""
    found: dict[str, list[str]] = {}
    for file, _ in _kernels():
        within = file.relative_to(_ENGINE).with_suffix("")
        is_format = within.parts[0] == _FORMAT_ROOM and within.parts[1] in FORMATS
        found.setdefault(within.parts[1] if is_format else _SHARED, []).append(".".join(("engine", *within.parts)))
    return {name: tuple(modules) for name, modules in found.items()}


def _missing() -> Mapping[str, tuple[str, ...]]:
    """The groups of which a kernel is not kept."""
    from engine.kernels.cache import kept_in

    files = {file for file, names in _kernels() if not all(kept_in(file, name) for name in names)}
    gone = {".".join(("engine", *file.relative_to(_ENGINE).with_suffix("").parts)) for file in files}
    return {name: modules for name, modules in _groups().items() if gone.intersection(modules)}


def kept_files() -> tuple[Path, ...]:
    """The files of all kernels, which are kept. Raises ``Unavailable`` for the first that is not."""
    from engine.kernels.cache import kept_in, kept_name

    found = []
    for source, names in _kernels():
        for name in names:
            folder = kept_in(source, name)
            if folder is None:
                raise Unavailable(f"The kernel {name} is not compiled", file=str(source))
            found += sorted(folder.glob(f"{kept_name(source, name)}.*"))
    return tuple(found)


def _kernels() -> Iterator[tuple[Path, list[str]]]:
    """Source files, and the kernels that stand in each."""
    for file in sorted(_ENGINE.rglob("*.py")):
        names = _KERNEL.findall(file.read_text())
        if names:
            yield file, names


def _function_count(modules: Sequence[str]) -> int:
    """How many functions a process compiles for these modules."""
    from engine.kernels.cache import sources_of

    files = {file for module in modules for file in sources_of(_ENGINE.parent / f"{module.replace('.', '/')}.py")}
    return sum(len(_COMPILED.findall(file.read_text())) for file in files)


def _compile_here(modules: Sequence[str]) -> None:
    """Import the modules; a line on standard output for each function that was compiled."""
    from numba.core import event

    class _Line(event.Listener):
        def on_start(self, event: object) -> None:
            pass

        def on_end(self, event: object) -> None:  # noqa: ARG002  # numba's protocol
            print(flush=True)

    event.register("numba:compile", _Line())
    # The process ends with its work, and numba keeps nearly all that it makes until then.
    gc.disable()
    for module in modules:
        resolve_name(module)


def main(modules: Sequence[str]) -> None:
    if modules:
        _compile_here(modules)
    else:
        compile_kernels(tell=tell_person)


if __name__ == "__main__":
    main(sys.argv[1:])
