"""Changes of a table's columns and of the writers' schemas stored with it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import crc32c
import pyarrow as pa
import structlog
from pyiceberg.schema import Schema
from pyiceberg.table import Transaction
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import AddSchemaUpdate, AssertCurrentSchemaId, AssertRefSnapshotId, SetCurrentSchemaUpdate

from engine.errors import Invalid, Unavailable
from engine.fault_points import FaultPoint, reach
from engine.formats.codec import CodecSpec, OnConflict
from engine.formats.proposals import propose_schema, with_schema
from engine.table.commit.change import Change, ColumnsUpdate, Decision, SchemaUpdate
from engine.table.companion_folder import schema_file_path
from engine.table.own_columns import columns_property, schema_to_add, with_added
from engine.table.properties import KEY_PROPERTIES, VALUE_PROPERTIES, CodecProperties
from engine.table.seal import guards_of, schema_seal_property
from engine.table.topic_table import TopicTable

LARGEST_SCHEMA_PROPERTY_BYTES = 64 << 10
"""A longer schema is a file of its own: properties are rewritten with every commit."""

_SCHEMA_FILES = tuple(names.schema_file for names in (VALUE_PROPERTIES, KEY_PROPERTIES))

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class AddColumns(Change):
    """Columns of value and key that the table has at least, at every level; those that are not wanted stay.

    ``value_format`` of the values that they are for.
    """

    value_format: str
    value_fields: Sequence[pa.Field]
    key_fields: Sequence[pa.Field]

    def decide(self, table: TopicTable) -> Decision:
        """Raises Unavailable where the table has got another format meanwhile."""
        _check_format(table, self.value_format)
        wanted = _with_existing(table.value_fields, self.value_fields)
        wanted_key = _with_existing(table.key_fields, self.key_fields)
        is_there = (wanted, wanted_key) == (table.value_fields, table.key_fields)
        return Decision(update=None if is_there else ColumnsUpdate(value_fields=wanted, key_fields=wanted_key))


def _with_existing(existing: Sequence[pa.Field], wanted: Sequence[pa.Field]) -> tuple[pa.Field, ...]:
    by_name = {field.name: field for field in wanted}
    return (*(by_name.pop(field.name, field) for field in existing), *by_name.values())


@dataclass(frozen=True, kw_only=True)
class AddSchemas(Change):
    """Writers' schemas by id, of values or (``of_keys``) of typed keys, and the columns they need.

    ``on_conflict`` as the topic's setting says; None: as it did when the table was made. A schema's file, where it
    needs one, is durable before the commit that names it. ``value_format`` that the table was last seen with.
    """

    value_format: str
    schemas: Mapping[int, str]
    on_conflict: OnConflict | None
    of_keys: bool = False

    def decide(self, table: TopicTable) -> Decision:
        """Raises Invalid for a text that is no schema, and when an id is known with another text; Unavailable where the
        table has got another format meanwhile."""
        _check_format(table, self.value_format)
        names, codec = (KEY_PROPERTIES, table.key_codec) if self.of_keys else (VALUE_PROPERTIES, table.codec)
        assert codec is not None, "schemas of keys are named by typed keys"
        fields = table.key_fields if self.of_keys else table.value_fields
        fields, properties = propose(table, codec, fields, self.schemas, names, self.on_conflict)
        update = ColumnsUpdate(
            value_fields=table.value_fields if self.of_keys else fields,
            key_fields=fields if self.of_keys else table.key_fields,
            properties=properties,
        )
        return Decision(update=update if properties else None)


def _check_format(table: TopicTable, value_format: str) -> None:
    if table.codec.name != value_format:
        raise Unavailable(
            f"the table's values are {table.codec.name} now, and were {value_format} when it was last looked at",
            topic=table.topic,
            next_step="nothing: the table is read again",
        )


def propose(
    view: TopicTable,
    codec: CodecSpec,
    fields: tuple[pa.Field, ...],
    schemas: Mapping[int, str],
    names: CodecProperties,
    on_conflict: OnConflict | None = None,
) -> tuple[tuple[pa.Field, ...], dict[str, str]]:
    """The fields once the schemas are added, and the properties that keep those that are new. Raises Invalid for a text
    that is no schema, and when an id is known with another text; Unavailable for the file of a long one."""
    properties: dict[str, str] = {}
    is_reserved = view.layout.is_metadata if names is VALUE_PROPERTIES else _no_name
    for schema_id, text in sorted(schemas.items()):
        known = codec.schemas.get(schema_id)
        if known is not None and known != text:
            raise Invalid(
                f"the schema {schema_id} is stored with another text",
                topic=view.topic,
                next_step="a schema registry that was set up again needs a new namespace for its tables",
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


def _stored(view: TopicTable, schema_id: int, text: str, names: CodecProperties) -> tuple[str, str]:
    content = text.encode()
    if len(content) <= LARGEST_SCHEMA_PROPERTY_BYTES:
        return f"{names.schema}{schema_id}", text
    path = schema_file_path(view.location, schema_id, crc32c.crc32c(content))
    view.warehouse.write_bytes(path, content)
    reach(FaultPoint.SCHEMA_FILE_WRITTEN)
    return f"{names.schema_file}{schema_id}", path


def stage_columns(transaction: Transaction, table: TopicTable, update: ColumnsUpdate) -> None:
    """Stage the columns that are missing, and the properties.

    Raises Invalid when a column that exists has another type, or a name is taken by Kafka's columns.
    """
    properties, sealed = dict(update.properties), {}
    if (update.value_fields, update.key_fields) != (table.value_fields, table.key_fields):
        own, layout, wanted, wanted_key = table.iceberg_schema, table.layout, update.value_fields, update.key_fields
        before = transaction.table_metadata.schema()
        try:
            with transaction.update_schema() as changing:
                changing.union_by_name(schema_to_add(own, before, layout, wanted, wanted_key))
                if wanted_key and not table.key_fields:
                    # Beside the bytes it stands for, and not after the value's columns.
                    changing.move_before(layout.key_column, layout.key_raw)
        except ValueError as error:
            raise Invalid(f"the table's columns can't become what the values need: {error}") from error
        after = transaction.table_metadata
        properties |= columns_property(with_added(own, after.schema(), layout, wanted, wanted_key), after.schema())
        sealed = schema_seal_property(after)
    transaction.set_properties({**properties, **guards_of(properties), **sealed})
    # Properties alone are no conflict, but columns of another format are.
    same_columns = AssertCurrentSchemaId(current_schema_id=transaction._table.metadata.current_schema_id)
    if same_columns not in transaction._requirements:
        transaction._requirements += (same_columns,)
    if any(name.startswith(_SCHEMA_FILES) for name in properties):
        # As every commit that names files: what was swept meanwhile can't be named by one that lands late.
        transaction._requirements += (AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=table.snapshot_id),)


def stage_schema(transaction: Transaction, update: SchemaUpdate) -> None:
    """Stage columns with the ids that they have, and the properties."""
    stage_ids(transaction, update.schema)
    sealed = schema_seal_property(transaction.table_metadata)
    transaction.set_properties({**update.properties, **guards_of(update.properties), **sealed})


def stage_ids(transaction: Transaction, wanted: Schema) -> None:
    """Stage columns with the ids that they have, which the library's own way would count anew."""
    metadata = transaction.table_metadata
    known = [schema.schema_id for schema in metadata.schemas if schema.as_struct() == wanted.as_struct()]
    schema_id = known[0] if known else max(schema.schema_id for schema in metadata.schemas) + 1
    added = () if known else (AddSchemaUpdate(schema=wanted.model_copy(update={"schema_id": schema_id})),)
    transaction._stage(
        (*added, SetCurrentSchemaUpdate(schema_id=schema_id)),
        (AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),),
    )
