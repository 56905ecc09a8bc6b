"""Schemas from a folder of files named by their ids: ``<id>.avsc``, ``<id>.proto`` or ``<id>.desc``, ``<id>.json``.

What a schema imports (Protobuf) or refers to (JSON) lies in the same folder or below, under the name it is called by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from pkgutil import resolve_name

from engine.errors import Invalid, Unavailable
from engine.formats.format_facts import facts_of
from engine.schemas.source import FoundSchema, Role
from engine.schemas.text import WrittenSchema, codec_text

MAX_FILES = 256  # that one schema needs, at any distance


class SchemaFolder:
    """Reads the files at every call: a schema that is added is found, one that is large is not kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, schema_id: int, schema_format: str) -> str:
        """Raises Invalid for a file that is missing or no schema, Unavailable for a folder that can't be read."""
        names = [f"{schema_id}{ending}" for ending in facts_of(schema_format).schema_endings]
        for name in names:
            path = self._folder / name
            if path.is_file():
                return read_schema(path, schema_format, self._folder)
        if not self._folder.is_dir():
            raise Unavailable(
                "the folder of schemas is not there", file=str(self._folder), next_step="create it or mount it"
            )
        raise Invalid(
            f"there is no schema {schema_id}",
            file=str(self._folder),
            next_step=f"put the writer's schema into {' or '.join(names)}",
        )

    def newest(self, topic: str, role: Role, schema_format: str) -> tuple[FoundSchema, ...]:
        """None: files don't say of which topic they are."""
        del topic, role, schema_format
        return ()

    def close(self) -> None:
        """Nothing is held open."""


class SchemaFile:
    """One file with the schema of values that name none."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, schema_id: int, schema_format: str) -> str:
        """Raises Invalid: no record names a file's schema by an id."""
        del schema_format
        raise Invalid(
            f"there is no schema {schema_id}: the topic's schemas are one file, for values without an id",
            file=str(self._path),
            next_step="let schemas be a folder or a registry",
        )

    def newest(self, topic: str, role: Role, schema_format: str) -> tuple[FoundSchema, ...]:
        """The file's schema, for any topic's values. Raises Invalid, Unavailable."""
        del topic
        if role is Role.KEY:
            return ()
        if not self._path.is_file():
            raise Unavailable("the schema's file is not there", file=str(self._path), next_step="create it or mount it")
        return (FoundSchema(text=read_schema(self._path, schema_format, self._path.parent)),)

    def close(self) -> None:
        """Nothing is held open."""


def read_schema(path: Path, schema_format: str, folder: Path) -> str:
    """A file's schema as the codec reads it, with what it needs of ``folder``. Raises Invalid, Unavailable."""
    facts = facts_of(schema_format).schemas
    assert facts is not None, "a format without schemas has no files of them"
    if path.suffix in facts.compiled:
        return str(resolve_name(facts.compiled[path.suffix])(_bytes(path)))
    text = _text(path)
    references: dict[str, str] = {}
    if facts.references is not None:
        named = resolve_name(facts.references)
        _follow(named(text), named, folder, references, {path.resolve()})
    schema = WrittenSchema(schema_type=facts.type_name, text=text, references=references)
    return codec_text(schema, schema_format, f"the file {path.name}")


def _follow(
    names: Iterable[str], named: Callable[[str], Iterable[str]], folder: Path, texts: dict[str, str], seen: set[Path]
) -> None:
    """Read what is named and lies in the folder, what each needs before it. Others are for the reader to miss."""
    for name in sorted(names):
        path = (folder / name.removeprefix("./")).resolve()
        # A name that leads out of the folder is none of ours.
        if path in seen or not path.is_relative_to(folder.resolve()) or not path.is_file():
            continue
        seen.add(path)
        if len(seen) > MAX_FILES:
            raise Invalid(f"a schema needs more than {MAX_FILES} files", file=str(folder))
        text = _text(path)
        _follow(named(text), named, folder, texts, seen)
        texts[name] = text


def _text(path: Path) -> str:
    try:
        return _bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise Invalid(f"the schema's file {path.name} is not UTF-8", file=str(path)) from error


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Unavailable(f"the schema's file {path.name} can't be read: {error.strerror}", file=str(path)) from error
