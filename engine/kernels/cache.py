"""Where compiled kernels are kept, and under which name: one with a digest of all that made them.

Numba itself looks only at the file that a kernel stands in, and at the processor. What it kept would be run although a
kernel that this one calls has changed, and can't be loaded once a module that it refers to has another name.
"""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import llvmlite
import numba
from llvmlite import binding
from numba.core import config

from engine.errors import Invalid

_ENGINE = Path(__file__).parent.parent
_IMPORT = re.compile(r"^from engine\.([\w.]+) import", re.MULTILINE)
PACKED = Path(__file__).with_name("compiled")
"""Beside the sources: where a wheel brings kernels along, and whoever may write there keeps them."""


class KernelCacheLocator:
    """What numba asks for a kernel's place (``NUMBA_CACHE_LOCATOR_CLASSES``, set by the engine).

    The first folder that has the kernel, else the first that can be written to: kernels that a wheel or an image brings
    along are read by a user who may not write there.
    """

    def __init__(self, folder: Path, disambiguator: str) -> None:
        self._folder = folder
        self._disambiguator = disambiguator

    @classmethod
    def from_function(cls, function: Any, path: str) -> KernelCacheLocator | None:
        """None for functions of others. Raises ``Invalid`` where a kernel is to be compiled and can be kept nowhere."""
        source = Path(path)
        if _ENGINE not in source.parents:
            return None
        folder = kept_in(source, function.__qualname__) or next(filter(_can_keep, _folders()), None)
        if folder is None:
            raise Invalid(
                "Compiled kernels can be kept nowhere: no folder for them can be written to",
                file=", ".join(map(str, _folders())),
                next_step="set NUMBA_CACHE_DIR to a folder that this user may write to",
            )
        return cls(folder, kernel_digest(source))

    def get_cache_path(self) -> str:
        return str(self._folder)

    def ensure_cache_path(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)

    def get_source_stamp(self) -> str:
        """Nothing: the digest in the name says it."""
        return ""

    def get_disambiguator(self) -> str:
        return self._disambiguator


def kept_in(source: Path, kernel: str) -> Path | None:
    """The folder that has this kernel of a source file, compiled from what the sources are now; None if none has."""
    name = kept_name(source, kernel)
    # An index, which numba writes first, and the code for the one signature that a kernel has.
    files = (f"{name}.nbi", f"{name}.1.nbc")
    return next((folder for folder in _folders() if all((folder / file).is_file() for file in files)), None)


def kept_name(source: Path, kernel: str) -> str:
    """What numba calls a kernel's files, without their endings."""
    version = f"py{sys.version_info.major}{sys.version_info.minor}{getattr(sys, 'abiflags', '')}"
    return f"{source.stem}.{kernel}-{kernel_digest(source)}.{version}"


def kernel_digest(source: Path) -> str:
    """Of all that makes the kernels of a file: their sources, the compiler, and what it compiles for."""
    parts = [f"{source.relative_to(_ENGINE)}", _compiler(), *(_read(file)[0] for file in sources_of(source))]
    return sha256("\n".join(parts).encode()).hexdigest()[:16]


@cache
def sources_of(source: Path) -> tuple[Path, ...]:
    """The file, and every file of the engine that it imports, sorted."""
    found: set[Path] = set()
    waiting = [source]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += _read(file)[1]
    return tuple(sorted(found))


@cache
def _read(path: Path) -> tuple[str, list[Path]]:
    """A file's digest, and the files of the engine's that it imports."""
    text = path.read_text()
    named = [_ENGINE / module.replace(".", "/") for module in _IMPORT.findall(text)]
    files = [file for one in named for file in (one.glob("*.py") if one.is_dir() else [one.with_suffix(".py")])]
    return sha256(f"{path.relative_to(_ENGINE)}\n{text}".encode()).hexdigest(), files


@cache
def _compiler() -> str:
    """The compiler, its settings, and the processor that its code is for."""
    processor = config.CPU_NAME or binding.get_host_cpu_name()
    features = binding.get_host_cpu_features().flatten() if config.CPU_FEATURES is None else config.CPU_FEATURES
    made_by = f"numba {numba.__version__}, llvmlite {llvmlite.__version__}"
    made_for = f"{binding.get_process_triple()} {processor} {features}"
    return f"{made_by}; {made_for}; bounds {config.BOUNDSCHECK}, level {int(config.OPT)}"


def _folders() -> tuple[Path, ...]:
    """Where kernels may be kept, in order."""
    own = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "floeberg" / "kernels"
    return (*((Path(config.CACHE_DIR).absolute(),) if config.CACHE_DIR else ()), PACKED, own)


def _can_keep(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)
