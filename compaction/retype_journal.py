"""What a retype has planned and written so far, kept beside the table so that the next one goes on (docs/repair.md).

Files in a folder of the warehouse, each a line with the CRC-32C of the JSON that follows: ``plan-<n>``, of which the
newest counts, and ``files-<n>`` with descriptions of files that were written by it. Nothing in it is believed of a
data file: each is read back and proven again. Without it a retype begins from the start.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import crc32c
import structlog

from engine.errors import Corrupt, Invalid
from engine.formats.codec import CodecSpec
from engine.offset_range import OffsetRange
from engine.records.digest import RangeDigest
from engine.table.commit.retype_plan import RetypePlan
from engine.table.companion_folder import retype_folder
from engine.table.data_file import ColumnStats, FileDescription
from engine.table.properties import CodecProperties
from engine.table.topic_table import TopicTable
from engine.table.windows import Clustering
from engine.warehouse.warehouse import Warehouse

_PLAN, _FILES = "plan", "files"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRetype:
    """A plan, and the files that were written by it, as far as they can be read."""

    plan: RetypePlan
    files: tuple[FileDescription, ...]


class RetypeJournal:
    """Of one table, for one process at a time. Every method raises Unavailable."""

    def __init__(self, table: TopicTable) -> None:
        self._warehouse: Warehouse = table.warehouse
        self._folder = retype_folder(table.location)
        self._numbers = dict.fromkeys((_PLAN, _FILES), 0)

    def read(self, codec_of: Callable[[Mapping[str, str], CodecProperties], CodecSpec]) -> KeptRetype | None:
        """What is kept; None where there is nothing, or no plan that can be read."""
        kept: dict[str, list[str]] = {_PLAN: [], _FILES: []}
        for name in self._warehouse.entries(self._folder):
            kind, _, number = name.partition("-")
            if kind in kept and number.isdecimal():
                kept[kind].append(name)
                self._numbers[kind] = max(self._numbers[kind], int(number) + 1)
        if not kept[_PLAN]:
            return None
        try:
            plan = RetypePlan.from_json(self._text(kept[_PLAN][-1]), codec_of)
            files = [_description(one) for name in kept[_FILES] for one in json.loads(self._text(name))]
        except (Corrupt, Invalid, ValueError, KeyError, TypeError) as error:
            _log.warning("retype_not_resumed", folder=self._folder, error=str(error))
            return None
        return KeptRetype(plan=plan, files=tuple(files))

    def keep_plan(self, plan: RetypePlan) -> None:
        self._write(_PLAN, plan.to_json())

    def keep_files(self, files: Sequence[FileDescription]) -> None:
        self._write(_FILES, json.dumps([_plain(one) for one in files]))

    def clear(self) -> None:
        """Nothing is kept any more. Older plans go before the newest, which would leave its place to them."""
        for name in sorted(self._warehouse.entries(self._folder), key=lambda name: (not name.startswith(_PLAN), name)):
            self._warehouse.delete(f"{self._folder}/{name}")

    def _write(self, kind: str, text: str) -> None:
        number = self._numbers[kind]
        self._numbers[kind] += 1
        content = text.encode()
        self._warehouse.write_bytes(
            f"{self._folder}/{kind}-{number:08d}", f"{crc32c.crc32c(content):08x}\n".encode() + content
        )

    def _text(self, name: str) -> str:
        path = f"{self._folder}/{name}"
        checksum, _, content = self._warehouse.read_bytes(path).partition(b"\n")
        if checksum != f"{crc32c.crc32c(content):08x}".encode():
            raise Corrupt("what a retype kept is not what it wrote", file=path)
        return content.decode()


def _plain(file: FileDescription) -> dict[str, Any]:
    columns = {str(field_id): asdict(stats) for field_id, stats in file.columns.items()}
    for stats in columns.values():
        for bound in ("lower", "upper"):
            stats[bound] = None if stats[bound] is None else stats[bound].hex()
    clustering = None if file.clustering is None else [list(file.clustering.columns), file.clustering.window_rows]
    named = {name: getattr(file, name) for name in FileDescription.__dataclass_fields__}
    return {
        **named,
        "range": [file.range.start, file.range.end],
        "digest": file.digest.to_text(),
        "schema_ids": list(file.schema_ids),
        "split_offsets": list(file.split_offsets),
        "columns": columns,
        "clustering": clustering,
    }


def _description(said: dict[str, Any]) -> FileDescription:
    columns = {}
    for field_id, stats in said["columns"].items():
        bounds = {name: None if stats[name] is None else bytes.fromhex(stats[name]) for name in ("lower", "upper")}
        columns[int(field_id)] = ColumnStats(**{**stats, **bounds})
    clustering = said["clustering"]
    return FileDescription(
        **{
            **said,
            "range": OffsetRange(start=said["range"][0], end=said["range"][1]),
            "digest": RangeDigest.from_text(said["digest"]),
            "schema_ids": tuple(said["schema_ids"]),
            "split_offsets": tuple(said["split_offsets"]),
            "columns": columns,
            "clustering": clustering and Clustering(columns=tuple(clustering[0]), window_rows=clustering[1]),
        }
    )
