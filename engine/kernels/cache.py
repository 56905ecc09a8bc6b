"""Under which name numba keeps a compiled kernel: one with a digest of the sources of all that it is made of.

Numba itself looks only at the file that a kernel stands in. What it kept would be run although a kernel that this one
calls has changed, and can't be loaded once a module that it refers to has another name.
"""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from numba.core.caching import InTreeCacheLocator, UserProvidedCacheLocator, UserWideCacheLocator

_ENGINE = Path(__file__).parent.parent
_IMPORT = re.compile(r"^from engine\.([\w.]+) import", re.MULTILINE)


class KernelCacheLocator:
    """The first of numba's own places that can be written to (``NUMBA_CACHE_LOCATOR_CLASSES``, set by the engine)."""

    @classmethod
    def from_function(cls, function: Any, path: str) -> Any:
        if _ENGINE not in Path(path).parents:
            return None
        places = (UserProvidedCacheLocator, InTreeCacheLocator, UserWideCacheLocator)
        locator = next((found for place in places if (found := place.from_function(function, path))), None)
        if locator is not None:
            name = f"{locator.get_disambiguator()}-{_digest(Path(path))}"
            locator.get_disambiguator = lambda: name
        return locator


@cache
def _read(path: Path) -> tuple[str, list[Path]]:
    """A file's digest, and the files of the engine's that it imports."""
    text = path.read_text()
    named = [_ENGINE / module.replace(".", "/") for module in _IMPORT.findall(text)]
    files = [file for one in named for file in (one.glob("*.py") if one.is_dir() else [one.with_suffix(".py")])]
    return sha256(f"{path.relative_to(_ENGINE)}\n{text}".encode()).hexdigest(), files


@cache
def _digest(path: Path) -> str:
    found: dict[Path, str] = {}
    waiting = [path]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found[file], imported = _read(file)
            waiting += imported
    return sha256("".join(sorted(found.values())).encode()).hexdigest()[:16]
