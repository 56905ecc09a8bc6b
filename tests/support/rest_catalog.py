"""A real Iceberg REST catalog: the Iceberg project's test server (Java) on SQLite, over a folder or an S3 bucket."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from floeberg.java.jdk import SHORT_LIFE_OPTIONS, java_command
from floeberg.java.maven_jars import MavenArtifact, class_path, pyspark_jars, resolve_jars
from tests.support.java_server import JavaServer

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


class RestCatalogServer(JavaServer):
    """``warehouse`` is a URI; ``s3`` are the catalog's ``s3.*`` properties where it is a bucket."""

    def __init__(self, directory: Path, *, warehouse: str | None = None, s3: Mapping[str, str] | None = None) -> None:
        super().__init__(directory)
        self.warehouse = warehouse or (self.directory / "warehouse").as_uri()
        self._s3 = dict(s3 or {})

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}"

    @property
    def health_url(self) -> str:
        return f"{self.uri}/v1/config"

    @property
    def properties(self) -> dict[str, str]:
        """What a ``[catalog]`` section says to reach it."""
        return {"type": "rest", "uri": self.uri, "warehouse": self.warehouse, **self._s3}

    def command(self) -> list[str]:
        jars = (*resolve_jars(_SERVER), *pyspark_jars().glob("hadoop-client-*.jar"))
        if self._s3:
            jars = (*jars, *resolve_jars(_SERVER_ON_S3))
        program = ["-cp", class_path(jars), "org.apache.iceberg.rest.RESTCatalogServer"]
        return [java_command(), "-Xmx256m", *SHORT_LIFE_OPTIONS, *program]

    def environment(self) -> dict[str, str]:
        environment = {
            "CATALOG_REST_PORT": str(self.ports[0]),
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
