"""Schemas that a registry gave once, kept on disk for the time when it does not answer. Rebuilt by asking again.

One file a schema: a line with the CRC-32C of the rest in eight hexadecimal digits, then JSON.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import crc32c
import structlog

from engine.durable_file import write_durably
from engine.schemas.text import WrittenSchema

_VERSION = 1

_log = structlog.get_logger(__name__)


class SchemaCache:
    """The schemas of one registry, in a folder that bears its ``identity``: two registries never mix.

    Nothing here is worth an error: what can't be read is not there, what can't be written is asked for again.
    """

    def __init__(self, root: Path, identity: str) -> None:
        self._identity = identity
        self._folder = root / hashlib.sha256(identity.encode()).hexdigest()[:16]

    def get(self, schema_id: int) -> WrittenSchema | None:
        """The schema as it was kept; None where it was not, or its file is damaged."""
        try:
            checksum, _, content = self._path(schema_id).read_bytes().partition(b"\n")
            if int(checksum, 16) != crc32c.crc32c(content):
                return None
            kept = json.loads(content)
            if (kept["version"], kept["registry"], kept["id"]) != (_VERSION, self._identity, schema_id):
                return None
            return WrittenSchema(schema_type=kept["type"], text=kept["text"], references=dict(kept["references"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, schema_id: int, schema: WrittenSchema) -> None:
        """Keep a schema; it is there whole or not at all, whenever the power fails."""
        content = json.dumps(
            {
                "version": _VERSION,
                "registry": self._identity,
                "id": schema_id,
                "type": schema.schema_type,
                "text": schema.text,
                "references": dict(schema.references),
            }
        ).encode()
        path = self._path(schema_id)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_durably(path, f"{crc32c.crc32c(content):08x}\n".encode() + content)
        except OSError as error:
            _log.warning("schema_not_kept", schema_id=schema_id, file=str(path), error=error.strerror)

    def _path(self, schema_id: int) -> Path:
        return self._folder / f"{schema_id}.json"
