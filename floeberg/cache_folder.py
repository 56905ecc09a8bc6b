"""Where things that can be fetched or computed again are kept between runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """``$FLOEBERG_CACHE``, or ``~/.cache/floeberg`` (``$XDG_CACHE_HOME`` is honoured). Made when missing."""
    named = os.environ.get("FLOEBERG_CACHE")
    base = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "floeberg"
    base.mkdir(parents=True, exist_ok=True)
    return base
