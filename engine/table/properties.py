"""The names of a topic's table properties and of what its snapshots' summaries say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

TABLE_FORMAT_VERSION = 1

FORMAT_VERSION_PROPERTY = "floeberg.format_version"
CLUSTER_ID_PROPERTY = "floeberg.cluster_id"
TOPIC_PROPERTY = "floeberg.topic"
TOPIC_ID_PROPERTY = "floeberg.topic_id"
LAYOUT_PROPERTY = "floeberg.layout"
SKIPPED_PREFIX = "floeberg.skipped."
EMPTY_PREFIX = "floeberg.empty."
RANGE_PREFIX = "floeberg.range."
"""In a snapshot's summary: the range of a partition that the snapshot added."""
REPLACED_PREFIX = "floeberg.replaced."
"""In a snapshot's summary: the ranges of a partition whose files the snapshot replaced."""
ERASED_PREFIX = "floeberg.erased."
"""Of a partition, what was erased (erased.py); in a snapshot's summary: what the snapshot erased of it."""
LEFT_PREFIX = "floeberg.left."
"""In a snapshot's summary: the ranges of a partition whose files left the table at its horizon."""
ADOPTED_PREFIX = "floeberg.adopted."
"""Ranges of a partition that another program rewrote without loss (adopted_range.py)."""
KIND_PROPERTY = "floeberg.kind"
"""What a table is that is not a topic's own: ``LATEST_KIND``."""
LATEST_KIND = "latest"
SWEPT_PROPERTY = "floeberg.swept"
"""A sequence number: data files that were begun when the table had this one, or an older one, and that it does not
name, may be gone; no commit takes one (commit/sweep_fence.py)."""
STREAM_SWEPT_PROPERTY = f"{SWEPT_PROPERTY}_stream"
"""Of a ``__latest`` table, a sequence number of the topic's: a data file that only states before that one listed, and
that this table does not name, may be gone; no commit takes one."""
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

    @classmethod
    def named(cls, part: str) -> Self:
        """``part``: "" for values, "key_" for keys."""
        return cls(
            codec=f"floeberg.{part}codec",
            schema=f"floeberg.{part}schema.",
            schema_file=f"floeberg.{part}schema_file.",
            placement=f"floeberg.{part}placement.",
            order=f"floeberg.{part}schema_order",
        )


VALUE_PROPERTIES = CodecProperties.named("")
KEY_PROPERTIES = CodecProperties.named("key_")
