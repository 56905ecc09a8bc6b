"""Changes of a table's columns and of the writers' schemas stored with it, as transactions to commit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import crc32c
import pyarrow as pa
import structlog
from pyiceberg.table import Table, Transaction

from engine.errors import Invalid
from engine.fault_points import FaultPoint, reach
from engine.formats.codec import CodecSpec, OnConflict
from engine.formats.proposals import propose_schema, with_schema
from engine.table.catalog.access import begin
from engine.table.columns import TableLayout, key_fields, value_fields
from engine.table.loading import own_schema
from engine.table.own_columns import columns_property, schema_to_add, with_added
from engine.table.properties import KEY_PROPERTIES, VALUE_PROPERTIES, CodecProperties
from engine.table.seal import guards_of, schema_seal_property
from engine.table.topic_table import TopicTable

LARGEST_SCHEMA_PROPERTY_BYTES = 64 << 10
"""A longer schema is a file beside the metadata: properties are rewritten with every commit."""

log = structlog.get_logger(__name__)


def stage_columns(
    table: Table, layout: TableLayout, wanted: Sequence[pa.Field], wanted_key: Sequence[pa.Field]
) -> tuple[Transaction, None] | None:
    """Add the columns that are missing, at every level; None when none is. Those that are not wanted stay.

    Raises Invalid when a column that exists has another type, or a name is taken by Kafka's columns.
    """
    own = own_schema(table.metadata)
    transaction = begin(table)
    wanted = _with_existing(value_fields(own, layout), wanted)
    if not _add_columns(transaction, table, layout, wanted, _with_existing(key_fields(own, layout), wanted_key)):
        return None
    return transaction, None


def _with_existing(existing: Sequence[pa.Field], wanted: Sequence[pa.Field]) -> list[pa.Field]:
    by_name = {field.name: field for field in wanted}
    return [*(by_name.pop(field.name, field) for field in existing), *by_name.values()]


def stage_schemas(
    table: Table, view: TopicTable, schemas: Mapping[int, str], on_conflict: OnConflict | None = None
) -> tuple[Transaction, None] | None:
    """Store the schemas of values and add their columns; None when all are stored.

    A schema's file, where it needs one, is durable before the commit that names it.
    """
    fields, properties = _propose(view, view.codec, view.value_fields, schemas, VALUE_PROPERTIES, on_conflict)
    return _stage(table, view, properties, fields, view.key_fields)


def stage_key_schemas(
    table: Table, view: TopicTable, schemas: Mapping[int, str], on_conflict: OnConflict | None = None
) -> tuple[Transaction, None] | None:
    """``stage_schemas`` for the schemas of typed keys."""
    assert view.key_codec is not None, "schemas of keys are named by typed keys"
    fields, properties = _propose(view, view.key_codec, view.key_fields, schemas, KEY_PROPERTIES, on_conflict)
    return _stage(table, view, properties, view.value_fields, fields)


def _propose(
    view: TopicTable,
    codec: CodecSpec,
    fields: tuple[pa.Field, ...],
    schemas: Mapping[int, str],
    names: CodecProperties,
    on_conflict: OnConflict | None = None,
) -> tuple[tuple[pa.Field, ...], dict[str, str]]:
    """The fields once the schemas are added, and the properties that keep those that are new."""
    properties: dict[str, str] = {}
    is_reserved = view.layout.is_metadata if names is VALUE_PROPERTIES else _no_name
    for schema_id, text in sorted(schemas.items()):
        known = codec.schemas.get(schema_id)
        if known is not None and known != text:
            raise Invalid(
                f"the schema {schema_id} is stored with another text",
                topic=view.topic,
                next_step="a schema registry that was set up anew needs a new namespace for its tables",
            )
        if known is None:
            proposal = propose_schema(codec, fields, text, is_reserved=is_reserved, on_conflict=on_conflict)
            for conflict in proposal.conflicts:
                log.warning("schema_conflict", topic=view.topic, schema_id=schema_id, problem=conflict)
            fields = proposal.fields
            codec = with_schema(codec, schema_id, text, proposal)
            key, value = _stored(view, schema_id, text, names)
            properties[key] = value
            if proposal.placement:
                properties[f"{names.placement}{schema_id}"] = json.dumps(dict(proposal.placement), sort_keys=True)
            properties[names.order] = json.dumps(list(codec.schemas))
    return fields, properties


def _no_name(_name: str) -> bool:
    return False


def _stage(
    table: Table,
    view: TopicTable,
    properties: dict[str, str],
    fields: Sequence[pa.Field],
    fields_of_key: Sequence[pa.Field],
) -> tuple[Transaction, None] | None:
    if not properties:
        return None
    transaction = begin(table)
    transaction.set_properties({**properties, **guards_of(properties)})
    _add_columns(transaction, table, view.layout, fields, fields_of_key)
    return transaction, None


def _stored(view: TopicTable, schema_id: int, text: str, names: CodecProperties) -> tuple[str, str]:
    content = text.encode()
    if len(content) <= LARGEST_SCHEMA_PROPERTY_BYTES:
        return f"{names.schema}{schema_id}", text
    path = f"{view.location.rstrip('/')}/metadata/schema-{schema_id}-{crc32c.crc32c(content):08x}.txt"
    view.warehouse.write_bytes(path, content)
    reach(FaultPoint.SCHEMA_FILE_WRITTEN)
    return f"{names.schema_file}{schema_id}", path


def _add_columns(
    transaction: Transaction,
    table: Table,
    layout: TableLayout,
    wanted: Sequence[pa.Field],
    wanted_key: Sequence[pa.Field],
) -> bool:
    own, before = own_schema(table.metadata), table.schema()
    known_key = key_fields(own, layout)
    if list(value_fields(own, layout)) == list(wanted) and list(known_key) == list(wanted_key):
        return False
    try:
        with transaction.update_schema() as update:
            update.union_by_name(schema_to_add(own, before, layout, wanted, wanted_key))
            if wanted_key and not known_key:
                # Beside the bytes it stands for, and not behind the value's columns.
                update.move_before(layout.key_column, layout.key_raw)
    except ValueError as error:
        raise Invalid(f"the table's columns can't become what the values need: {error}") from error
    after = transaction.table_metadata
    properties = columns_property(with_added(own, after.schema(), layout, wanted, wanted_key), after.schema())
    transaction.set_properties({**properties, **guards_of(properties), **schema_seal_property(after)})
    return bool(transaction._updates)
