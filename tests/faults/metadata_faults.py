"""Faults of a table's metadata.json: the file, its schema and snapshots, and Floeberg's properties in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.fsck.report import Damage
from tests.faults.fault import Faults, Region
from tests.faults.fault_world import SEGMENT, FaultWorld, cut

METADATA = Faults(Region.METADATA)
PROPERTIES = Faults(Region.PROPERTIES)

_EDITED = (Damage.FOREIGN_CHANGE,)
_UNREADABLE = (Damage.DAMAGED_METADATA,)


def _files() -> None:
    def faulty(name: str, damage: Callable[[FaultWorld], object]) -> None:
        def plant(world: FaultWorld) -> str:
            told = world.metadata_file().name
            damage(world)
            return told

        METADATA.fault(*_UNREADABLE, name=name)(plant)

    def holding(content: bytes) -> Callable[[FaultWorld], object]:
        return lambda world: world.metadata_file().write_bytes(content)

    faulty("metadata is gone", lambda world: world.metadata_file().unlink())
    faulty("metadata is empty", lambda world: cut(world.metadata_file(), 0))
    faulty("half of the metadata", lambda world: cut(world.metadata_file(), 0.5))
    faulty("metadata without its last byte", lambda world: cut(world.metadata_file(), 0.9999))
    faulty("metadata that is no text", holding(b"\xff\xfe\x00" * 300))
    faulty("metadata of zeros", holding(bytes(2000)))
    faulty("metadata that is a list", holding(b"[1, 2, 3]"))
    faulty("metadata that is an empty object", holding(b"{}"))
    faulty("metadata that is null", holding(b"null"))


def _edit(name: str, *damages: Damage, is_seen: bool = True) -> Callable[[Callable[[dict[str, Any]], None]], None]:
    def add(change: Callable[[dict[str, Any]], None]) -> None:
        def plant(world: FaultWorld) -> str:
            world.edit_metadata(change)
            return "orders"

        METADATA.fault(*damages, name=name, is_seen=is_seen)(plant)

    return add


def _columns(content: dict[str, Any]) -> list[dict[str, Any]]:
    wanted = content["current-schema-id"]
    found: list[dict[str, Any]] = next(one for one in content["schemas"] if one["schema-id"] == wanted)["fields"]
    return found


def _column(content: dict[str, Any], name: str) -> dict[str, Any]:
    return next(column for column in _columns(content) if column["name"] == name)


@_edit("a column renamed", *_EDITED)
def _renamed(content: dict[str, Any]) -> None:
    _column(content, "channel")["name"] = "door"


@_edit("field ids exchanged", *_EDITED)
def _exchanged(content: dict[str, Any]) -> None:
    one, other = _column(content, "channel"), _column(content, "note")
    one["id"], other["id"] = other["id"], one["id"]


@_edit("Kafka's columns exchanged", *_EDITED)
def _exchanged_own(content: dict[str, Any]) -> None:
    one, other = _column(content, "kafka_offset"), _column(content, "kafka_partition")
    one["id"], other["id"] = other["id"], one["id"]


@_edit("a column of another type", *_EDITED)
def _retyped(content: dict[str, Any]) -> None:
    _column(content, "amount")["type"] = "float"


@_edit("a column less", *_EDITED)
def _dropped(content: dict[str, Any]) -> None:
    _columns(content).remove(_column(content, "channel"))


@_edit("columns in another order", *_EDITED)
def _reordered(content: dict[str, Any]) -> None:
    _columns(content).reverse()


@_edit("a column that is required", *_EDITED)
def _required(content: dict[str, Any]) -> None:
    column = _column(content, "channel")
    column["required"] = not column["required"]


@_edit("partitioned by another column", *_EDITED)
def _repartitioned(content: dict[str, Any]) -> None:
    content["partition-specs"][0]["fields"][0]["source-id"] = _column(content, "kafka_offset")["id"]


@_edit("partitioned by another transform", *_EDITED)
def _transformed(content: dict[str, Any]) -> None:
    content["partition-specs"][0]["fields"][0]["transform"] = "bucket[4]"


@_edit("the last column's id lowered", *_EDITED)
def _lowered(content: dict[str, Any]) -> None:
    content["last-column-id"] -= 5


@_edit("a schema that is not there", *_UNREADABLE)
def _no_schema(content: dict[str, Any]) -> None:
    content["current-schema-id"] = 77


@_edit("an earlier schema", *_EDITED)
def _earlier_schema(content: dict[str, Any]) -> None:
    content["current-schema-id"] = 0


@_edit("another table's id", *_EDITED)
def _other_uuid(content: dict[str, Any]) -> None:
    content["table-uuid"] = "00000000-0000-4000-8000-000000000000"


@_edit("an earlier snapshot", *_EDITED)
def _earlier_snapshot(content: dict[str, Any]) -> None:
    earlier = content["snapshots"][1]["snapshot-id"]
    content["current-snapshot-id"] = earlier
    content["refs"]["main"]["snapshot-id"] = earlier


@_edit("no snapshot", *_EDITED, Damage.DAMAGED_METADATA)
def _no_snapshot(content: dict[str, Any]) -> None:
    content.update({"current-snapshot-id": None, "refs": {}})


@_edit("a snapshot that is not there", *_UNREADABLE, Damage.FOREIGN_CHANGE)
def _unknown_snapshot(content: dict[str, Any]) -> None:
    content["current-snapshot-id"] = 5
    content["refs"]["main"]["snapshot-id"] = 5


@_edit("the current snapshot left out", *_UNREADABLE, Damage.FOREIGN_CHANGE)
def _lost_snapshot(content: dict[str, Any]) -> None:
    content["snapshots"].pop()


@_edit("the current snapshot has an earlier list", *_UNREADABLE)
def _earlier_list(content: dict[str, Any]) -> None:
    content["snapshots"][-1]["manifest-list"] = content["snapshots"][1]["manifest-list"]


@_edit("the current snapshot has no list", *_UNREADABLE)
def _no_list(content: dict[str, Any]) -> None:
    content["snapshots"][-1]["manifest-list"] = ""


@_edit("snapshots of a wrong type", *_UNREADABLE)
def _wrong_type(content: dict[str, Any]) -> None:
    content["snapshots"] = "none"


@_edit("a format that nobody knows", *_UNREADABLE)
def _wrong_format(content: dict[str, Any]) -> None:
    content["format-version"] = 99


def _property(name: str, damages: tuple[Damage, ...], key: str, change: Callable[[Any], Any]) -> None:
    def plant(world: FaultWorld) -> str:
        world.edit_property(key, change)
        return world.metadata_file().name

    PROPERTIES.fault(*damages, name=name)(plant)


def _with(key: str, change: Callable[[Any], Any]) -> Callable[[dict[str, Any]], None]:
    def edit(value: dict[str, Any]) -> None:
        value[key] = change(value[key])

    return edit


def _properties() -> None:
    ledger, skipped = "floeberg.ledger.0", "floeberg.skipped.1"
    _property("ledger's end raised", _EDITED, ledger, _with("end", lambda end: end + 40))
    _property("ledger's end lowered", _EDITED, ledger, _with("end", lambda end: end - 40))
    _property("ledger's start raised", _EDITED, ledger, _with("start", lambda start: start + 40))
    _property("ledger's epoch raised", _EDITED, ledger, _with("epoch", lambda epoch: epoch + 4))
    _property("ledger's digest", _EDITED, ledger, _with("digest", lambda digest: digest.replace(":120", ":119")))
    _property("log start raised", _EDITED, ledger, _with("log_start", lambda _: 2 * SEGMENT + 10))
    _property("log start at the end", _EDITED, ledger, _with("log_start", lambda _: 3 * SEGMENT))
    _property("a ledger that begins after its end", _UNREADABLE, ledger, _with("start", lambda _: 1000))
    _property("a ledger that is a list", _UNREADABLE, ledger, lambda value: [value])
    _property("skipped offsets that a file has", _EDITED, skipped, lambda _: [[40, 120]])
    _property("fewer skipped offsets", _EDITED, skipped, lambda _: [[80, 100]])
    _property("skipped offsets of words", _UNREADABLE, skipped, lambda _: [["a", "b"]])
    _property("layout", (*_UNREADABLE, *_EDITED), "floeberg.layout", lambda value: {**value, "prefix": "x_"})
    _property("adopted range moved", _EDITED, "floeberg.adopted.0", lambda value: [{**value[0], "range": [40, 70]}])
    _property("adopted range's file", _EDITED, "floeberg.adopted.0", _another_size)
    _property("codec's options", _EDITED, "floeberg.codec", lambda value: {**value, "name": "string"})
    _property("seal's snapshot", _EDITED, "floeberg.seal", lambda value: {**value, "snapshot": 12})
    _property("seal's checksum", _EDITED, "floeberg.seal", lambda value: {**value, "sum": "0" * 16})
    _property("order of the schemas", _EDITED, "floeberg.schema_order", lambda value: [7, *value])
    _property("a schema's fields", _EDITED, "floeberg.schema.101", _fields_exchanged)
    lines: dict[str, tuple[tuple[Damage, ...], dict[str, str | None]]] = {
        "ledger's line is gone": (_EDITED, {ledger: None}),
        "skipped offsets are gone": (_EDITED, {skipped: None}),
        "skipped offsets of the other partition": (_EDITED, {"floeberg.skipped.0": "[[40, 80]]"}),
        "a range without records": (_EDITED, {"floeberg.empty.0": "[[0, 40]]"}),
        "adopted ranges are gone": (_EDITED, {"floeberg.adopted.0": None}),
        "topic's name": (_EDITED, {"floeberg.topic": "others"}),
        "topic's id": (_EDITED, {"floeberg.topic_id": "BBBBBBBBBBBBBBBBBBBBBQ"}),
        "cluster's id": (_EDITED, {"floeberg.cluster_id": "another"}),
        "format version": (_UNREADABLE, {"floeberg.format_version": "9"}),
        "a schema is gone": (_EDITED, {"floeberg.schema.101": None}),
        "columns of somebody's": ((*_UNREADABLE, *_EDITED), {"floeberg.columns": "{}"}),
        "seal is gone": (_EDITED, {"floeberg.seal": None}),
        "seal is no JSON": (_EDITED, {"floeberg.seal": "{"}),
        "schema's seal": (_EDITED, {"floeberg.seal_schema": "1/0/00000000"}),
        "codec is gone": (_UNREADABLE, {"floeberg.codec": None}),
        "layout is gone": (_UNREADABLE, {"floeberg.layout": None}),
        "topic's name is gone": (_UNREADABLE, {"floeberg.topic": None}),
    }
    for name, (damages, changes) in lines.items():

        def plant(world: FaultWorld, changes: dict[str, str | None] = changes) -> str:
            world.edit_properties(changes)
            return world.metadata_file().name

        PROPERTIES.fault(*damages, name=name)(plant)


def _another_size(value: Any) -> Any:
    value[0]["files"][0][1] += 1
    return value


def _fields_exchanged(value: Any) -> Any:
    fields = value["fields"]
    fields[0], fields[1] = fields[1], fields[0]
    return value


_files()
_properties()


@PROPERTIES.fault(*_EDITED)
def a_file_is_gone_and_its_offsets_called_skipped(world: FaultWorld) -> str:
    world.file(0, 0).unlink()
    world.edit_properties({"floeberg.skipped.0": f"[[0, {SEGMENT}]]"})
    return world.metadata_file().name


@PROPERTIES.fault(*_EDITED, Damage.LOST_RANGE)
def an_entry_is_gone_and_its_offsets_called_skipped(world: FaultWorld) -> str:
    catalog = world.open_catalog()
    catalog.load_table("kafka.orders").delete(f"kafka_partition == 1 and kafka_offset < {SEGMENT}")
    catalog.close()
    world.edit_properties({"floeberg.skipped.1": f"[[0, {SEGMENT}], [80, 120]]"})
    return world.metadata_file().name
