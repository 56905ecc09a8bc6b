"""Which files below a table's folders are Floeberg's, by place and name alone.

A file of any other name, or anywhere else, is somebody else's: it is never touched.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Self

from engine.durable_file import TEMPORARY_SUFFIX
from engine.offset_range import OffsetRange
from engine.table.companion_folder import companion_folder
from engine.table.sealed_snapshot import OWN_MANIFEST

_ID = r"[0-9a-f]+(?:-[0-9a-f]+)*"
_RANGE = r"\d{20}-\d{20}"


class FileKind(Enum):
    """What a file is, and so by what it is needed."""

    DATA = "data file"
    """Or one that deletes rows: it is written before it is known which commit will name it."""
    METADATA = "metadata of a commit"
    """A manifest or a manifest list: it is named by the one commit it was made for, or by none."""
    STATE = "table metadata"
    """Whose it is, its content says: every program that commits gives it such a name."""
    SCHEMA = "writer's schema"
    AUXILIARY = "auxiliary state of the log door"
    TEMPORARY = "file that was never finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFile:
    """``schema_id`` of a schema's file; ``partition`` and ``range`` of an auxiliary state."""

    kind: FileKind
    schema_id: int | None = None
    partition: int | None = None
    range: OffsetRange | None = None


_MANIFEST = rf"{OWN_MANIFEST}{_ID}-m\d+\.avro"
_MANIFEST_LIST = rf"snap-\d+-\d+-{OWN_MANIFEST}{_ID}\.avro"
_AUXILIARY = rf"log_door/p=(?P<partition>\d+)/(?P<range>{_RANGE})\.aux"
_BESIDE = (
    (FileKind.SCHEMA, r"schemas/(?P<schema_id>-?\d+)-[0-9a-f]{8}\.txt"),
    (FileKind.AUXILIARY, _AUXILIARY),
)


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """Of one table. ``folders`` are the two in which all of them lie."""

    folders: tuple[str, ...]
    _patterns: tuple[tuple[FileKind, re.Pattern[str]], ...]

    @classmethod
    def of(cls, location: str, topic_id: str) -> Self:
        folders = (location.rstrip("/"), companion_folder(location))
        inside = (
            (FileKind.DATA, rf"data/{re.escape(topic_id)}/p=\d+/{_RANGE}-e-?\d+-[0-9a-zA-Z]+\.parquet"),
            (FileKind.METADATA, rf"metadata/(?:{_MANIFEST}|{_MANIFEST_LIST})"),
            (FileKind.STATE, rf"metadata/\d+-{_ID}\.(?:gz\.)?metadata\.json"),
            # Where an earlier version kept what lies beside the folder now.
            (FileKind.SCHEMA, r"metadata/schema-(?P<schema_id>-?\d+)-[0-9a-f]{8}\.txt"),
            (FileKind.AUXILIARY, _AUXILIARY),
        )
        named = [(kind, folders[0], pattern) for kind, pattern in inside]
        named += [(kind, folders[1], pattern) for kind, pattern in _BESIDE]
        return cls(folders, tuple((kind, re.compile(f"{re.escape(root)}/{name}")) for kind, root, name in named))

    def kind_of(self, path: str) -> OwnFile | None:
        """What a listed path names; None for what is somebody else's."""
        finished = path.removesuffix(TEMPORARY_SUFFIX)
        for kind, pattern in self._patterns:
            found = pattern.fullmatch(finished)
            if found is None:
                continue
            if finished != path:
                return OwnFile(kind=FileKind.TEMPORARY)
            parts = found.groupdict()
            bounds = parts.get("range")
            return OwnFile(
                kind=kind,
                schema_id=int(parts["schema_id"]) if "schema_id" in parts else None,
                partition=int(parts["partition"]) if "partition" in parts else None,
                range=None if bounds is None else _offsets(bounds),
            )
        return None


def _offsets(text: str) -> OffsetRange:
    start, _, end = text.partition("-")
    return OffsetRange(start=int(start), end=int(end))
