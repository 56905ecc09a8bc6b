"""Changes of a table's columns and of the writers' schemas stored with it, as transactions to commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import crc32c
import pyarrow as pa
import structlog
from pyiceberg.table import Table, Transaction

from engine.errors import Invalid
from engine.fault_points import FaultPoint, reach
from engine.formats.value_codec import propose_fields
from engine.table.catalog import begin
from engine.table.columns import TableLayout, value_fields
from engine.table.own_columns import columns_property, own_schema, schema_to_add, with_added
from engine.table.seal import schema_seal_property
from engine.table.topic_table import SCHEMA_FILE_PREFIX, SCHEMA_PREFIX, TopicTable

LARGEST_SCHEMA_PROPERTY_BYTES = 64 << 10
"""A longer schema is a file beside the metadata: properties are rewritten with every commit."""

log = structlog.get_logger(__name__)


def stage_columns(table: Table, layout: TableLayout, wanted: Sequence[pa.Field]) -> tuple[Transaction, None] | None:
    """Add the value columns that are missing, at every level; None when none is.

    Raises Invalid when a column that exists has another type, or a name is taken by Kafka's columns.
    """
    transaction = begin(table)
    if not _add_columns(transaction, table, layout, wanted):
        return None
    return transaction, None


def stage_schemas(table: Table, view: TopicTable, schemas: Mapping[int, str]) -> tuple[Transaction, None] | None:
    """Store schemas and add their columns; None when all are stored.

    A schema's file, where it needs one, is durable before the commit that names it.
    """
    fields = view.value_fields
    properties: dict[str, str] = {}
    for schema_id, text in sorted(schemas.items()):
        known = view.codec.schemas.get(schema_id)
        if known is not None and known != text:
            raise Invalid(
                f"the schema {schema_id} is stored with another text",
                topic=view.topic,
                next_step="a schema registry that was set up anew needs a new namespace for its tables",
            )
        if known is None:
            proposal = propose_fields(view.codec.name, text, fields, options=view.codec.options)
            for conflict in proposal.conflicts:
                log.warning("schema_conflict", topic=view.topic, schema_id=schema_id, problem=conflict)
            fields = proposal.fields
            key, value = _stored(view, schema_id, text)
            properties[key] = value
    if not properties:
        return None
    transaction = begin(table)
    transaction.set_properties(properties)
    _add_columns(transaction, table, view.layout, fields)
    return transaction, None


def _stored(view: TopicTable, schema_id: int, text: str) -> tuple[str, str]:
    content = text.encode()
    if len(content) <= LARGEST_SCHEMA_PROPERTY_BYTES:
        return f"{SCHEMA_PREFIX}{schema_id}", text
    path = f"{view.location.rstrip('/')}/metadata/schema-{schema_id}-{crc32c.crc32c(content):08x}.txt"
    view.warehouse.write_bytes(path, content)
    reach(FaultPoint.SCHEMA_FILE_WRITTEN)
    return f"{SCHEMA_FILE_PREFIX}{schema_id}", path


def _add_columns(transaction: Transaction, table: Table, layout: TableLayout, wanted: Sequence[pa.Field]) -> bool:
    own, before = own_schema(table.metadata), table.schema()
    if list(value_fields(own, layout)) == list(wanted):
        return False
    try:
        with transaction.update_schema() as update:
            update.union_by_name(schema_to_add(own, before, layout, wanted))
    except ValueError as error:
        raise Invalid(f"the table's columns can't become what the values need: {error}") from error
    after = transaction.table_metadata
    properties = columns_property(with_added(own, after.schema(), layout, wanted), after.schema())
    transaction.set_properties({**properties, **schema_seal_property(after.current_schema_id, after.default_spec_id)})
    return bool(transaction._updates)
