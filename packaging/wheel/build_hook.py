"""Puts the runbook that the daemon shows into the wheel, and compiled kernels, with which it is one for this Python and
processor family.

``FLOEBERG_KERNELS`` names their folder (``make wheel``). Without it the wheel is one for any Python: it compiles them
when they are first needed.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_WHERE_READ = "engine/kernels/compiled"


class PackedFiles(BuildHookInterface):
    """Called by hatchling before it writes a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        build_data["force_include"]["docs/runbook.md"] = "serving/status/static/runbook.md"
        folder = os.environ.get("FLOEBERG_KERNELS")
        if folder is None:
            return
        files = sorted(Path(folder).glob("*.nb[ic]"))
        if not files:
            raise FileNotFoundError(f"{folder} has no compiled kernels: run packaging/wheel/kept_kernels.py")
        build_data["force_include"].update({str(file): f"{_WHERE_READ}/{file.name}" for file in files})
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        # Numba's own wheels need glibc 2.28 (PEP 600), so this one is for no older system either.
        build_data["tag"] = f"{python}-{python}-manylinux_2_28_{platform.machine()}"
        build_data["pure_python"] = False
