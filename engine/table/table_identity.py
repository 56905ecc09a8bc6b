"""Whether a table that is there is the one that is meant: the cluster's, the topic's, of the layout and the format."""

from __future__ import annotations

from pyiceberg.table import Table

from engine.errors import Invalid
from engine.formats.csv_dialect import CsvDialect
from engine.formats.value_codec import CodecSpec
from engine.table.columns import TableLayout
from engine.table.topic_table import CLUSTER_ID_PROPERTY, TOPIC_PROPERTY, TopicTable


def check_same(
    view: TopicTable, cluster_id: str, layout: TableLayout, codec: CodecSpec, key_codec: CodecSpec | None
) -> None:
    """That a topic's table is the one the settings ask for. Raises Invalid."""
    if view.cluster_id != cluster_id:
        raise Invalid(
            f"the topic's table belongs to the cluster {view.cluster_id}, not {cluster_id}",
            topic=view.topic,
            next_step="set another namespace for this cluster",
        )
    if view.layout != layout or view.codec.name != codec.name:
        raise Invalid(
            f"the topic's table was made for {view.codec.name} values and {view.layout}, the settings say "
            f"{codec.name} and {layout}",
            topic=view.topic,
            next_step="set the topic's value, key and column_prefix back, or rename the table to begin a new one",
        )
    for made, wanted in ((view.codec, codec), (view.key_codec, key_codec)):
        if made is not None and wanted is not None and _columns_of(made) != _columns_of(wanted):
            raise Invalid(
                f"the topic's table was made for {made.name} with {_difference(made, wanted)}, the settings say "
                f"{_difference(wanted, made)}",
                topic=view.topic,
                next_step="set the topic's csv, key_csv and unwrap back, or rename the table to begin a new one",
            )


def _columns_of(codec: CodecSpec) -> tuple[object, ...]:
    """Of a codec's options those that rows are written back by: with others they would come back wrong."""
    return codec.options.get("unwrap"), CsvDialect.of(codec.options) if codec.name == "csv" else None


def _difference(one: CodecSpec, other: CodecSpec) -> str:
    found = sorted(set(one.options.items()) - set(other.options.items()))
    return ", ".join(f"{name} = {text}" for name, text in found) or "none"


def check_older_incarnation(table: Table, topic: str, cluster_id: str) -> None:
    """That the table in the way of a new one is an earlier incarnation's of the topic. Raises Invalid."""
    properties = table.metadata.properties
    if properties.get(TOPIC_PROPERTY) != topic or properties.get(CLUSTER_ID_PROPERTY) != cluster_id:
        raise Invalid(
            f"the table {'.'.join(table.name())} belongs to the topic {properties.get(TOPIC_PROPERTY)} of the cluster "
            f"{properties.get(CLUSTER_ID_PROPERTY)}",
            topic=topic,
            next_step="set another namespace for this cluster",
        )
