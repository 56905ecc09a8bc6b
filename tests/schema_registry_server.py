"""A real schema registry with Confluent's API: Apicurio, in a JVM of its own, over a database in a folder."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tarfile
import time
from functools import cache
from pathlib import Path
from typing import Self

import httpx

from engine.errors import Invalid
from floeberg.cache_folder import cache_folder
from floeberg.child_process import end_process
from floeberg.free_ports import free_ports
from floeberg.jdk import java_version
from floeberg.maven_jars import MavenArtifact, resolve_archive

OLDEST_JAVA = 21
START_TIMEOUT_SECONDS = 180.0
STOP_TIMEOUT_SECONDS = 30.0

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


class SchemaRegistryServer:
    """A server in ``directory`` on a free port of the loopback; a context manager.

    Its database stays in the directory: starting again goes on with the same schemas and port.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = self._management_port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        assert self._port, "the registry was never started: it has no address"
        return f"http://127.0.0.1:{self._port}/apis/ccompat/v7"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start and wait until the registry answers."""
        java = java_of_the_registry()
        assert java is not None, f"the registry needs Java {OLDEST_JAVA}"
        self._directory.mkdir(parents=True, exist_ok=True)
        if not self._port:
            self._port, self._management_port = free_ports(2)
        options = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "--enable-native-access=ALL-UNNAMED"]
        settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": str(self._port),
            "quarkus.management.host": "127.0.0.1",
            "quarkus.management.port": str(self._management_port),
            "apicurio.datasource.url": f"jdbc:h2:file:{self._directory.absolute()}/registry",
        }
        options += [f"-D{name}={value}" for name, value in settings.items()]
        with (self._directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [java, *options, "-jar", str(_program() / "quarkus-run.jar")],
                cwd=self._directory,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        try:
            self._await_answer()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the server cleanly."""
        process, self._process = self._process, None
        if process is not None:
            end_process(process, timeout_seconds=STOP_TIMEOUT_SECONDS)

    def _await_answer(self) -> None:
        assert self._process is not None, "only a started server answers"
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                if httpx.get(f"{self.url}/subjects", timeout=5.0).is_success:
                    return
            except httpx.TransportError:
                time.sleep(0.1)
        log = (self._directory / "server.log").read_text(errors="replace")
        raise AssertionError(f"the schema registry does not answer:\n{log[-3000:]}")


def _program() -> Path:
    """The unpacked server; the first call fetches it."""
    folder = cache_folder() / f"{_APICURIO.name}-{_APICURIO.version}"
    with (cache_folder() / "schema-registry.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            unfinished = folder.with_name(folder.name + ".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            with tarfile.open(resolve_archive(_APICURIO)) as archive:
                archive.extractall(unfinished, filter="data")
            unfinished.rename(folder)
    return folder
