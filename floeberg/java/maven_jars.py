"""Jars from a Maven registry, resolved by the Ivy that pyspark ships: no build tool needs to be installed.

A resolution is a folder of jars, named by what was asked for. It appears by a rename, so that it is there whole or
not at all, and one process resolves while the others wait for it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from engine.errors import Invalid, Unavailable
from engine.file_lock import FileLock
from floeberg.java.jdk import SHORT_LIFE_OPTIONS, java_command

RESOLVE_TIMEOUT_SECONDS = 900.0
"""Bound of one resolution: enough for some hundred MB over a slow line."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class MavenArtifact:
    """Coordinates of an artifact. With ``alone`` its dependencies are left out (it bundles or needs none).

    ``classifier`` names one of several files of the same coordinates (``tests``), ``extension`` one that is no jar.
    """

    group: str
    name: str
    version: str
    alone: bool = False
    classifier: str = ""
    extension: str = "jar"

    @classmethod
    def parse(cls, text: str, *, alone: bool = False) -> MavenArtifact:
        """Read ``group:name:version``. Raises ``Invalid``."""
        parts = text.split(":")
        if len(parts) != 3 or not all(parts):
            raise Invalid(f"{text!r} is no Maven artifact", next_step="write it as group:name:version")
        return cls(group=parts[0], name=parts[1], version=parts[2], alone=alone)

    def __str__(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"


KAFKA_VERSION = "4.1.1"
SLF4J_SIMPLE = MavenArtifact(group="org.slf4j", name="slf4j-simple", version="1.7.36", alone=True)
KAFKA_BROKER = (MavenArtifact(group="org.apache.kafka", name="kafka_2.13", version=KAFKA_VERSION), SLF4J_SIMPLE)
"""A broker; slf4j-simple gives its log a place to go."""
KAFKA_STORAGE_API = (
    MavenArtifact(group="org.apache.kafka", name="kafka-storage-api", version="3.9.1", alone=True),
    MavenArtifact(group="org.apache.kafka", name="kafka-clients", version="3.9.1", alone=True),
)
"""What the plugin is compiled against: the oldest broker it runs in."""
ICEBERG_SPARK = (
    MavenArtifact(group="org.apache.iceberg", name="iceberg-spark-runtime-4.1_2.13", version="1.11.0", alone=True),
)
"""Iceberg inside Spark: reads the tables through a REST catalog."""


def cache_folder() -> Path:
    """Where things that can be fetched again are kept between runs. Made when missing.

    ``$FLOEBERG_CACHE``, or ``~/.cache/floeberg`` (``$XDG_CACHE_HOME`` is honoured).
    """
    named = os.environ.get("FLOEBERG_CACHE")
    base = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "floeberg"
    base.mkdir(parents=True, exist_ok=True)
    return base


def resolve_jars(artifacts: Sequence[MavenArtifact], *, cache: Path | None = None) -> tuple[Path, ...]:
    """Files of the artifacts and of what they depend on at run time, sorted by name.

    The first call fetches them into ``cache`` (default: ``cache_folder()``), later ones only look. Safe to call from
    several processes at once. ``$FLOEBERG_IVY_SETTINGS`` names an Ivy settings file for those who use a mirror.
    Raises ``Unavailable`` when the registry does not answer or lacks an artifact.
    """
    base = cache or cache_folder()
    folder = base / "jars" / _folder_name(artifacts)
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(base / "jars.lock") as lock:
            lock.take(wait=True)
            if not folder.exists():
                _resolve_into(folder, artifacts, base / "ivy")
    return tuple(sorted(folder.iterdir()))


def class_path(jars: Sequence[Path]) -> str:
    """The jars as ``java -cp`` wants them."""
    return os.pathsep.join(map(str, jars))


def _folder_name(artifacts: Sequence[MavenArtifact]) -> str:
    # A plain jar adds nothing: folders that are there already keep their names.
    asked = "\n".join(f"{artifact} {artifact.alone}{_file_of(artifact)}" for artifact in sorted(artifacts))
    return f"{artifacts[0].name}-{artifacts[0].version}-{hashlib.sha256(asked.encode()).hexdigest()[:8]}"


def _file_of(artifact: MavenArtifact) -> str:
    return artifact.classifier + ("" if artifact.extension == "jar" else f".{artifact.extension}")


def _resolve_into(folder: Path, artifacts: Sequence[MavenArtifact], ivy_cache: Path) -> None:
    """Resolve into a folder beside ``folder``, then rename. The caller holds the lock."""
    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    wanted = unfinished / "ivy.xml"
    wanted.write_text(_ivy_file(artifacts))
    extensions = sorted({artifact.extension for artifact in artifacts})
    command = [
        java_command(),
        *SHORT_LIFE_OPTIONS,
        # Ivy waits for a silent registry for ever unless the JVM says otherwise.
        "-Dsun.net.client.defaultConnectTimeout=20000",
        "-Dsun.net.client.defaultReadTimeout=60000",
        *("-cp", str(pyspark_jars() / "*"), "org.apache.ivy.Main"),
        *("-cache", str(ivy_cache), "-ivy", str(wanted), "-confs", "default", "-types", *extensions, "bundle"),
        *("-retrieve", f"{unfinished}/[artifact]-[revision](-[classifier]).[ext]"),
    ]
    settings = os.environ.get("FLOEBERG_IVY_SETTINGS")
    if settings:
        command += ["-settings", settings]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=RESOLVE_TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise _unavailable(artifacts, f"no answer within {RESOLVE_TIMEOUT_SECONDS:.0f} s") from error
    if done.returncode != 0 or not any(any(unfinished.glob(f"*.{extension}")) for extension in extensions):
        shutil.rmtree(unfinished, ignore_errors=True)
        raise _unavailable(artifacts, _first_problem(done.stdout + done.stderr))
    wanted.unlink()
    unfinished.rename(folder)


def _ivy_file(artifacts: Sequence[MavenArtifact]) -> str:
    """An Ivy module that depends on the artifacts (format: Ivy 2.x ``ivy.xml``)."""
    # Ivy takes a module once: jars that differ in their classifier are artifacts of one dependency.
    modules: dict[tuple[str, str, str], list[MavenArtifact]] = {}
    for artifact in artifacts:
        modules.setdefault((artifact.group, artifact.name, artifact.version), []).append(artifact)
    lines = [
        f"<dependency org={quoteattr(group)} name={quoteattr(name)} rev={quoteattr(version)}"
        f' conf="default->default" transitive="{str(not all(jar.alone for jar in jars)).lower()}">'
        f"{''.join(map(_file_element, jars)) if any(map(_file_of, jars)) else ''}</dependency>"
        for (group, name, version), jars in modules.items()
    ]
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="floeberg" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(lines)}</dependencies></ivy-module>"
    )


def _file_element(artifact: MavenArtifact) -> str:
    classifier = f" m:classifier={quoteattr(artifact.classifier)}" if artifact.classifier else ""
    extension = quoteattr(artifact.extension)
    return f"<artifact name={quoteattr(artifact.name)} type={extension} ext={extension}{classifier}/>"


def pyspark_jars() -> Path:
    """The folder of the jars that pyspark ships. Raises ``Invalid`` where it is not installed."""
    # Found without importing it: pyspark takes a second to import, and only spark_*.py may.
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise Invalid("pyspark is not installed", next_step="install floeberg with its dependencies")
    return Path(spec.origin).parent / "jars"


def _first_problem(output: str) -> str:
    """What Ivy says went wrong: its first error, else the first module it did not find, else its last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if ":::: ERRORS" in lines[:-1]:
        return lines[lines.index(":::: ERRORS") + 1]
    missing = [line.strip(": ") for line in lines if line.startswith(":: ") and line.endswith(": not found")]
    return (missing or lines or ["no output"])[0 if missing else -1]


def _unavailable(artifacts: Sequence[MavenArtifact], reason: str) -> Unavailable:
    names = ", ".join(map(str, artifacts))
    return Unavailable(
        f"The Maven registry gave no jars for {names}: {reason}",
        next_step="check the network, or point FLOEBERG_IVY_SETTINGS at an Ivy settings file for your mirror",
    )
