"""AWS Glue as moto plays it, on the server that plays S3, made to refuse what Glue itself refuses."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from moto.core.exceptions import JsonRESTError
from moto.glue.responses import GlueResponse

_lock = threading.Lock()


@contextmanager
def strict_glue() -> Iterator[None]:
    """An update that names a version of the table which is not the current one is refused (Glue API reference,
    UpdateTable, VersionId): moto takes it."""
    lenient = GlueResponse.update_table

    def update_table(response: GlueResponse) -> Any:
        with _lock:
            table = response.glue_backend.get_table(
                response.parameters["DatabaseName"], response.parameters["TableInput"]["Name"]
            )
            named = response.parameters.get("VersionId")
            if named is not None and named != table.as_dict()["VersionId"]:
                raise JsonRESTError("ConcurrentModificationException", f"version {named} is not the current one")
            return lenient(response)

    with patch.object(GlueResponse, "update_table", update_table):
        yield


def glue_properties(s3: Mapping[str, str]) -> dict[str, str]:
    """What a ``[catalog]`` section says to reach it: the server is the one of ``s3``."""
    named = {name.replace("s3.", "glue."): value for name, value in s3.items()}
    return {"type": "glue", **named, **s3}
