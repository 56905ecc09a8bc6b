"""A real catalog that somebody else wrote, with the Iceberg REST protocol: Nessie, in memory, over an S3 bucket."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from floeberg.java.jdk import SHORT_LIFE_OPTIONS
from floeberg.java.maven_jars import MavenArtifact, resolve_jars
from tests.support.java_server import JavaServer
from tests.support.schema_registry_server import java_of_the_registry

VERSION = "0.99.0"
"""The newest that Maven Central has as one jar."""

_NESSIE = MavenArtifact(
    group="org.projectnessie.nessie", name="nessie-quarkus", version=VERSION, classifier="runner", alone=True
)


class NessieServer(JavaServer):
    """``s3`` are the catalog's ``s3.*`` properties; the bucket is that of ``warehouse``."""

    port_count: ClassVar[int] = 2

    def __init__(self, directory: Path, *, warehouse: str, s3: Mapping[str, str]) -> None:
        super().__init__(directory)
        self._warehouse, self._s3 = warehouse, dict(s3)

    @property
    def properties(self) -> dict[str, str]:
        """What a ``[catalog]`` section says to reach it."""
        return {"type": "rest", "uri": f"http://127.0.0.1:{self.ports[0]}/iceberg", **self._s3}

    @property
    def health_url(self) -> str:
        return f"{self.properties['uri']}/v1/config"

    def command(self) -> list[str]:
        java = java_of_the_registry()
        assert java is not None, "Nessie needs Java 21"
        store = "nessie.catalog.service.s3.default-options"
        settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": str(self.ports[0]),
            "quarkus.management.host": "127.0.0.1",
            "quarkus.management.port": str(self.ports[1]),
            "nessie.version.store.type": "IN_MEMORY",
            "nessie.server.authentication.enabled": "false",
            "nessie.catalog.default-warehouse": "warehouse",
            "nessie.catalog.warehouses.warehouse.location": self._warehouse,
            f"{store}.endpoint": self._s3["s3.endpoint"],
            f"{store}.region": self._s3["s3.region"],
            f"{store}.path-style-access": "true",
            f"{store}.access-key": "urn:nessie-secret:quarkus:store",
            "store.name": self._s3["s3.access-key-id"],
            "store.secret": self._s3["s3.secret-access-key"],
        }
        options = ["-Xmx384m", *SHORT_LIFE_OPTIONS, *(f"-D{name}={value}" for name, value in settings.items())]
        (program,) = resolve_jars([_NESSIE])
        return [java, *options, "-jar", str(program)]
