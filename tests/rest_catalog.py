"""A real Iceberg REST catalog: the Iceberg project's test server (Java) on SQLite, over a folder or an S3 bucket."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import httpx

from floeberg.child_process import end_process
from floeberg.free_ports import free_ports
from floeberg.jdk import java_command
from floeberg.maven_jars import MavenArtifact, class_path, resolve_jars, spark_jar

START_TIMEOUT_SECONDS = 90.0
STOP_TIMEOUT_SECONDS = 30.0

_ICEBERG = "org.apache.iceberg"
_VERSION = "1.11.0"
_JETTY = "12.1.2"
_SERVER = (
    MavenArtifact(group=_ICEBERG, name="iceberg-open-api", version=_VERSION, classifier="test-fixtures", alone=True),
    MavenArtifact(group=_ICEBERG, name="iceberg-core", version=_VERSION),
    MavenArtifact(group=_ICEBERG, name="iceberg-core", version=_VERSION, classifier="tests", alone=True),
    MavenArtifact(group="org.eclipse.jetty.ee10", name="jetty-ee10-servlet", version=_JETTY),
    MavenArtifact(group="org.eclipse.jetty.compression", name="jetty-compression-server", version=_JETTY),
    MavenArtifact(group="org.eclipse.jetty.compression", name="jetty-compression-gzip", version=_JETTY),
    MavenArtifact(group="org.xerial", name="sqlite-jdbc", version="3.50.3.0"),
    MavenArtifact(group="org.slf4j", name="slf4j-simple", version="2.0.17", alone=True),
)
_SERVER_ON_S3 = (
    MavenArtifact(group=_ICEBERG, name="iceberg-aws", version=_VERSION, alone=True),
    MavenArtifact(group=_ICEBERG, name="iceberg-aws-bundle", version=_VERSION, alone=True),
    MavenArtifact(group="dev.failsafe", name="failsafe", version="3.3.2", alone=True),
)


class RestCatalogServer:
    """A server in ``directory`` on a free port of the loopback; a context manager.

    Its database and log (``server.log``) stay in the directory: starting again goes on with the same tables and port.
    ``warehouse`` is a URI; ``s3`` are the catalog's ``s3.*`` properties where it is a bucket.
    """

    def __init__(self, directory: Path, *, warehouse: str | None = None, s3: Mapping[str, str] | None = None) -> None:
        self.directory = directory.absolute()
        self.warehouse = warehouse or (self.directory / "warehouse").as_uri()
        self._s3 = dict(s3 or {})
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        assert self._port, "the catalog was never started: it has no address"
        return f"http://127.0.0.1:{self._port}"

    @property
    def properties(self) -> dict[str, str]:
        """What a ``[catalog]`` section says to reach it."""
        return {"type": "rest", "uri": self.uri, "warehouse": self.warehouse, **self._s3}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start and wait until the catalog answers."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._port = self._port or free_ports(1)[0]
        jars = (*resolve_jars(_SERVER), spark_jar("hadoop-client-api"), spark_jar("hadoop-client-runtime"))
        if self._s3:
            jars = (*jars, *resolve_jars(_SERVER_ON_S3))
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        with (self.directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [java_command(), *options, "-cp", class_path(jars), "org.apache.iceberg.rest.RESTCatalogServer"],
                env=self._environment(),
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
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the server at once, as a crash would."""
        self._end(signal.SIGKILL)

    def _environment(self) -> dict[str, str]:
        environment = {
            "CATALOG_REST_PORT": str(self._port),
            "CATALOG_WAREHOUSE": self.warehouse,
            "CATALOG_URI": f"jdbc:sqlite:{self.directory / 'catalog.db'}",
        }
        if self._s3:
            environment |= {
                "CATALOG_IO__IMPL": "org.apache.iceberg.aws.s3.S3FileIO",
                "CATALOG_S3_ENDPOINT": self._s3["s3.endpoint"],
                "CATALOG_S3_PATH__STYLE__ACCESS": "true",
                "CATALOG_S3_ACCESS__KEY__ID": self._s3["s3.access-key-id"],
                "CATALOG_S3_SECRET__ACCESS__KEY": self._s3["s3.secret-access-key"],
                "CATALOG_CLIENT_REGION": self._s3["s3.region"],
                "AWS_REGION": self._s3["s3.region"],
            }
        return environment

    def _await_answer(self) -> None:
        assert self._process is not None, "only a started server answers"
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                if httpx.get(f"{self.uri}/v1/config", timeout=5.0).is_success:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        log = (self.directory / "server.log").read_text(errors="replace")
        raise AssertionError(f"the REST catalog does not answer:\n{log[-3000:]}")

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        end_process(process, timeout_seconds=STOP_TIMEOUT_SECONDS, with_signal=number)
