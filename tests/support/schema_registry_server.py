"""A real schema registry with Confluent's API: Apicurio, in a JVM of its own, over a database in a folder."""

from __future__ import annotations

import os
import shutil
import tarfile
from functools import cache
from pathlib import Path
from typing import ClassVar

from engine.errors import Invalid
from engine.file_lock import FileLock
from floeberg.java.jdk import SHORT_LIFE_OPTIONS, java_version
from floeberg.java.maven_jars import MavenArtifact, cache_folder, resolve_jars
from tests.support.java_server import JavaServer

OLDEST_JAVA = 21

_APICURIO = MavenArtifact(
    group="io.apicurio",
    name="apicurio-registry-app",
    version="3.3.3",
    classifier="all",
    extension="tar.gz",
    alone=True,
)


@cache
def java_of_the_registry() -> str | None:
    """A Java that is new enough: of ``JAVA_HOME``, of the PATH, or installed beside; None where there is none."""
    home = os.environ.get("JAVA_HOME")
    named = [Path(home, "bin", "java")] if home else []
    found = shutil.which("java")
    installed = sorted(Path("/usr/lib/jvm").glob("*/bin/java"))
    for java in (*named, *([Path(found)] if found else []), *installed):
        try:
            if java_version(str(java)) >= OLDEST_JAVA:
                return str(java)
        except Invalid:
            continue
    return None


class SchemaRegistryServer(JavaServer):
    """The registry's API, and the management port that the program asks for."""

    port_count: ClassVar[int] = 2
    start_timeout_seconds: ClassVar[float] = 180.0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}/apis/ccompat/v7"

    @property
    def health_url(self) -> str:
        return f"{self.url}/subjects"

    def command(self) -> list[str]:
        java = java_of_the_registry()
        assert java is not None, f"the registry needs Java {OLDEST_JAVA}"
        port, management_port = self.ports
        settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": str(port),
            "quarkus.management.host": "127.0.0.1",
            "quarkus.management.port": str(management_port),
            "apicurio.datasource.url": f"jdbc:h2:file:{self.directory}/registry",
        }
        options = ["-Xmx384m", *SHORT_LIFE_OPTIONS, "--enable-native-access=ALL-UNNAMED"]
        options += [f"-D{name}={value}" for name, value in settings.items()]
        return [java, *options, "-jar", str(_program() / "quarkus-run.jar")]


def _program() -> Path:
    """The unpacked server; the first call fetches it."""
    folder = cache_folder() / f"{_APICURIO.name}-{_APICURIO.version}"
    with FileLock(cache_folder() / "schema-registry.lock") as lock:
        lock.take(wait=True)
        if not folder.exists():
            unfinished = folder.with_name(folder.name + ".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            (packed,) = resolve_jars([_APICURIO])
            with tarfile.open(packed) as archive:
                archive.extractall(unfinished, filter="data")
            unfinished.rename(folder)
    return folder
