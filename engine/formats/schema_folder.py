"""Schemas from a folder of files named ``<id>.avsc``, each complete in itself."""

from __future__ import annotations

from pathlib import Path

from engine.errors import Invalid, Unavailable


class SchemaFolder:
    """Reads the file at every call: a schema that is added is found, one that is large is not kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, schema_id: int) -> str:
        """Raises Invalid for a file that is missing or not text, Unavailable for a folder that can't be read."""
        path = self._folder / f"{schema_id}.avsc"
        try:
            return path.read_text(encoding="utf-8")
        except FileNotFoundError as error:
            if not self._folder.is_dir():
                raise Unavailable(
                    "the folder of schemas is not there", file=str(self._folder), next_step="create it or mount it"
                ) from error
            raise Invalid(
                f"there is no schema {schema_id}", file=str(path), next_step="put the writer's schema into this file"
            ) from error
        except UnicodeDecodeError as error:
            raise Invalid(f"the file of schema {schema_id} is not UTF-8", file=str(path)) from error
        except OSError as error:
            raise Unavailable(f"schema {schema_id} can't be read: {error.strerror}", file=str(path)) from error

    def close(self) -> None:
        """Nothing is held open."""
