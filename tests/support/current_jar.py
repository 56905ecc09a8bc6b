"""The broker plugin's jar, for tests that put it into a broker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from engine.errors import Invalid
from floeberg.java.plugin_jar import JAR_NAME, packed_jar, write_jar

_PLUGIN = Path(__file__).resolve().parents[2] / "plugin"


def current_jar(folder: Path) -> Path:
    """A jar in ``folder``: the one that ``make`` built as long as no source is newer, or else one that is built now."""
    if _is_current():
        return write_jar(folder)
    jar = folder / JAR_NAME
    subprocess.run([sys.executable, _PLUGIN / "build.py", "--jar", jar], check=True, timeout=120)
    return jar


def _is_current() -> bool:
    try:
        built_at = packed_jar().stat().st_mtime
    except Invalid:
        return False
    return all(source.stat().st_mtime <= built_at for source in (_PLUGIN / "src").rglob("*.java"))
