"""Builds the broker plugin's jar with the JDK's own compiler: ``python plugin/build.py`` (``make jar``).

Kafka's API jars come from the Maven registry through the same resolver as the demo's broker. The jar has no
dependency but the JDK and that API, runs on Java 11 and newer, and is the same bytes for the same sources and JDK.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from engine.errors import FloebergError, Invalid  # noqa: E402  # the project is not installed when its jar is built
from floeberg.java.jdk import SHORT_LIFE_OPTIONS, java_command  # noqa: E402
from floeberg.java.maven_jars import KAFKA_STORAGE_API, class_path, resolve_jars  # noqa: E402

SOURCES = PROJECT / "plugin" / "src"
JAR = PROJECT / "floeberg" / "jars" / "floeberg-plugin.jar"
OLDEST_BROKER_JAVA = 11
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time a zip entry can have; the same for all, so that the jar depends on nothing but its content."""
_MANIFEST = b"Manifest-Version: 1.0\r\nImplementation-Title: floeberg-plugin\r\n\r\n"


def compile_java(sources: Sequence[Path], classes: Path, class_path_entries: Sequence[Path]) -> None:
    """Compile Java files into ``classes``. Raises ``Invalid`` with the compiler's own words."""
    javac = Path(java_command()).resolve().with_name("javac")
    if not javac.exists():
        raise Invalid(f"{javac.parent} has no javac: it is a JRE", next_step="install a JDK (openjdk-17-jdk-headless)")
    command = [str(javac), *(f"-J{option}" for option in SHORT_LIFE_OPTIONS), "--release", str(OLDEST_BROKER_JAVA)]
    command += ["-encoding", "UTF-8", "-g:source,lines", "-Xlint:all,-processing", "-Werror", "-proc:none"]
    command += ["-cp", class_path(class_path_entries), "-d", str(classes)]
    done = subprocess.run([*command, *map(str, sorted(sources))], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Invalid(f"The plugin does not compile:\n{done.stdout}{done.stderr}")


def write_jar(classes: Path, jar: Path) -> None:
    """Pack a folder of classes: sorted entries, one fixed time, whole or not at all."""
    jar.parent.mkdir(parents=True, exist_ok=True)
    unfinished = jar.with_suffix(".unfinished")
    entries = [("META-INF/MANIFEST.MF", _MANIFEST)]
    entries += [(path.relative_to(classes).as_posix(), path.read_bytes()) for path in sorted(classes.rglob("*.class"))]
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            entry = zipfile.ZipInfo(name, _ZIP_EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    unfinished.replace(jar)


def build_jar(jar: Path = JAR) -> Path:
    """Compile and pack the plugin; returns the jar's path."""
    classes = Path(tempfile.mkdtemp(prefix="floeberg-plugin-"))
    try:
        compile_java(list(SOURCES.rglob("*.java")), classes, resolve_jars(KAFKA_STORAGE_API))
        write_jar(classes, jar)
    finally:
        shutil.rmtree(classes)
    return jar


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the broker plugin's jar.")
    parser.add_argument("--jar", type=Path, default=JAR, help="where the jar goes (default: %(default)s)")
    try:
        build_jar(parser.parse_args().jar)
    except FloebergError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
