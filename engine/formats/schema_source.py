"""The port through which writer schemas come in: by id, as text that needs nothing else to be read."""

from __future__ import annotations

from typing import Protocol


class SchemaSource(Protocol):
    """Where the schemas that values name by id are found."""

    def get(self, schema_id: int) -> str:
        """The schema's Avro JSON text, references to other schemas put in.

        Raises Invalid when the source answers that there is no such schema, or none that can be used: asking again
        won't help. Raises Unavailable when it can't be asked now, or what answers is not the source that was meant.
        """

    def close(self) -> None:
        """Let go of connections; the source is not used afterwards."""
