"""The names of a topic's table properties and of what its snapshots' summaries say."""

from __future__ import annotations

from dataclasses import dataclass

TABLE_FORMAT_VERSION = 1

FORMAT_VERSION_PROPERTY = "floeberg.format_version"
CLUSTER_ID_PROPERTY = "floeberg.cluster_id"
TOPIC_PROPERTY = "floeberg.topic"
TOPIC_ID_PROPERTY = "floeberg.topic_id"
LAYOUT_PROPERTY = "floeberg.layout"
CODEC_PROPERTY = "floeberg.codec"
KEY_CODEC_PROPERTY = "floeberg.key_codec"
SCHEMA_PREFIX = "floeberg.schema."
SCHEMA_FILE_PREFIX = "floeberg.schema_file."
KEY_SCHEMA_PREFIX = "floeberg.key_schema."
KEY_SCHEMA_FILE_PREFIX = "floeberg.key_schema_file."
PLACEMENT_PREFIX = "floeberg.placement."
KEY_PLACEMENT_PREFIX = "floeberg.key_placement."
SCHEMA_ORDER_PROPERTY = "floeberg.schema_order"
KEY_SCHEMA_ORDER_PROPERTY = "floeberg.key_schema_order"
SKIPPED_PREFIX = "floeberg.skipped."
EMPTY_PREFIX = "floeberg.empty."
RANGE_PREFIX = "floeberg.range."
"""In a snapshot's summary: the range of a partition that the snapshot added."""
REPLACED_PREFIX = "floeberg.replaced."
"""In a snapshot's summary: the ranges of a partition whose files the snapshot replaced."""
ADOPTED_PREFIX = "floeberg.adopted."
"""Ranges of a partition that another program rewrote without loss (adopted_range.py)."""
COLUMNS_PROPERTY = "floeberg.columns"
"""Floeberg's own columns, ids and types, once another program has renamed, added or widened some of the table's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecProperties:
    """Under which names the table keeps one codec: its options, and by id its schemas, the files of long ones, and
    where the fields of each stand; ``order`` the ids in the order in which they were added."""

    codec: str
    schema: str
    schema_file: str
    placement: str
    order: str


VALUE_PROPERTIES = CodecProperties(
    codec=CODEC_PROPERTY,
    schema=SCHEMA_PREFIX,
    schema_file=SCHEMA_FILE_PREFIX,
    placement=PLACEMENT_PREFIX,
    order=SCHEMA_ORDER_PROPERTY,
)
KEY_PROPERTIES = CodecProperties(
    codec=KEY_CODEC_PROPERTY,
    schema=KEY_SCHEMA_PREFIX,
    schema_file=KEY_SCHEMA_FILE_PREFIX,
    placement=KEY_PLACEMENT_PREFIX,
    order=KEY_SCHEMA_ORDER_PROPERTY,
)
