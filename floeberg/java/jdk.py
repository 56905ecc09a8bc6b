"""The Java runtime that Spark, the broker of the demo and the resolver of jars run on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from engine.errors import Invalid

OLDEST_JAVA = 17
SHORT_LIFE_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""For a JVM that lives for seconds: its second compiler and parallel collector would take as much CPU as its work."""
_NEXT_STEP = f"install a JDK {OLDEST_JAVA} or newer and put it on the PATH, or name it in JAVA_HOME"


@cache
def java_command() -> str:
    """Path of ``java``: that of ``JAVA_HOME`` first, then that of the PATH.

    Raises ``Invalid`` when there is none, or when it is older than Spark 4 needs.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if found is None or not Path(found).exists():
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on the PATH"
        raise Invalid(f"No Java found: {where}", next_step=_NEXT_STEP)
    version = java_version(found)
    if version < OLDEST_JAVA:
        raise Invalid(f"{found} is Java {version}, Spark needs {OLDEST_JAVA} or newer", next_step=_NEXT_STEP)
    return found


def java_version(java: str) -> int:
    """Feature release of a ``java`` executable, for example 17. Raises ``Invalid`` when it can't be asked."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise Invalid(f"{java} does not run: {error}", next_step=_NEXT_STEP) from error
    # Java 8 and older call themselves 1.8; nothing else has a leading 1.
    match = re.search(r'version "(?:1\.)?(\d+)', answer)
    if match is None:
        raise Invalid(f"{java} does not say which Java it is: {answer.splitlines()[:1]}", next_step=_NEXT_STEP)
    return int(match.group(1))
