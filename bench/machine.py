"""What the figures were measured on: a figure without its machine says nothing."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import psutil

from floeberg.java.jdk import java_command, java_version

_LIBRARIES = ("pyspark", "pyarrow", "pyiceberg", "numba", "confluent-kafka")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Processor, cores this process may use, memory, and the versions of what the work is done with."""

    processor: str
    core_count: int
    memory_gib: float
    system: str
    versions: str

    @classmethod
    def this(cls) -> Machine:
        libraries = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
        return cls(
            processor=_processor(),
            core_count=len(os.sched_getaffinity(0)),
            memory_gib=psutil.virtual_memory().total / 2**30,
            system=platform.system(),
            versions=f"Python {platform.python_version()}, Java {java_version(java_command())}, {libraries}",
        )

    def __str__(self) -> str:
        hardware = f"{self.core_count} cores of {self.processor}, {self.memory_gib:.0f} GiB memory"
        return f"{hardware}, {self.system}; {self.versions}"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def commit() -> str:
    """The measured state of the sources, as git names it."""
    command = ["git", "describe", "--always"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent, check=False)
    return done.stdout.strip() or "unknown"
