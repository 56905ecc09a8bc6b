"""A table of text values, as a worker is told of it."""

from __future__ import annotations

from pathlib import Path

from engine.formats.codec import CodecSpec
from engine.table.columns import TableLayout, arrow_schema, iceberg_schema
from engine.table.topic_table import TableFacts
from engine.topic_partition import TopicIdPartition
from engine.warehouse.warehouse import Warehouse


def string_table(location: Path, partition: TopicIdPartition) -> TableFacts:
    import pyarrow as pa

    layout = TableLayout()
    return TableFacts(
        topic=partition.topic,
        topic_id=partition.topic_id,
        location=str(location),
        layout=layout,
        codec=CodecSpec(name="string"),
        schema=arrow_schema(iceberg_schema(layout, [pa.field("value", pa.string())])),
        settings=None,
        warehouse=Warehouse(),
    )
