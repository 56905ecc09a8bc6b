"""A real S3 server over HTTP, in the test's process and in memory (moto)."""

from __future__ import annotations

import logging
from typing import Self

from moto.server import ThreadedMotoServer
from pyarrow import fs

BUCKET = "warehouse"
_REGION = "us-east-1"


class S3Server:
    """One server on a free port of the loopback, with an empty bucket; a context manager."""

    def __init__(self) -> None:
        logging.getLogger("werkzeug").setLevel(logging.WARNING)  # a line for every request
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)

    @property
    def properties(self) -> dict[str, str]:
        """How a catalog's properties name it."""
        host, port = self._server.get_host_and_port()
        return {
            "s3.endpoint": f"http://{host}:{port}",
            "s3.access-key-id": "test",
            "s3.secret-access-key": "testsecret",
            "s3.region": _REGION,
        }

    def __enter__(self) -> Self:
        self._server.start()
        fs.S3FileSystem(
            endpoint_override=self.properties["s3.endpoint"],
            access_key="test",
            secret_key="testsecret",
            region=_REGION,
            allow_bucket_creation=True,
        ).create_dir(BUCKET)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.stop()
