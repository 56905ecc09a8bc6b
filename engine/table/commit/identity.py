"""Whether a table that is there is the one that is meant: the cluster's, the topic's, of the layout and the format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from pkgutil import resolve_name

from pyiceberg.table import Table

from engine.errors import Invalid
from engine.formats.codec import CodecSpec
from engine.formats.format_facts import FORMATS
from engine.table.columns import TableLayout
from engine.table.properties import CLUSTER_ID_PROPERTY, TOPIC_ID_PROPERTY, TOPIC_PROPERTY
from engine.table.topic_table import TopicTable


def topic_id_of(table: Table) -> str:
    """Raises Invalid for a table that is not a topic's."""
    topic_id: str | None = table.metadata.properties.get(TOPIC_ID_PROPERTY)
    if topic_id is None:
        raise Invalid(
            f"the table {'.'.join(table.name())} exists and is not a topic's",
            next_step="rename that table, or set another namespace",
        )
    return topic_id


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
    check_settings(view, layout, codec, key_codec)


def check_settings(view: TopicTable, layout: TableLayout, codec: CodecSpec, key_codec: CodecSpec | None) -> None:
    """That the settings keep a topic as its table was made to. Raises Invalid, naming those that differ."""
    made = _settings(view.layout, view.codec, view.key_codec)
    wanted = _settings(layout, codec, key_codec)
    differing = [name for name in wanted if name in made and made[name].meaning != wanted[name].meaning]
    if differing:
        raise Invalid(
            f"the settings say {_in_words(wanted, differing)}, the topic's table was made for "
            f"{_in_words(made, differing)}",
            topic=view.topic,
            next_step=f"set {' and '.join(differing)} back and restart the daemon; or rename the table, and the topic "
            "begins a new one with the records that are not in a table yet",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    """What a setting means, and how it is written; None where it is not set."""

    meaning: object
    text: str | None

    @classmethod
    def plain(cls, text: str | None) -> _Setting:
        return cls(meaning=text, text=None if text is None else f'"{text}"')


def _settings(layout: TableLayout, codec: CodecSpec, key_codec: CodecSpec | None) -> dict[str, _Setting]:
    """The settings needed to reproduce rows, under their own names: with others the bytes would come back wrong."""
    found = {
        "value": _Setting.plain(codec.name),
        "key": _Setting.plain(layout.key),
        "column_prefix": _Setting.plain(layout.prefix),
        "unwrap": _Setting.plain(codec.options.get("unwrap")),
    }
    for prefix, spec in (("", codec), ("key_", key_codec)):
        facts = None if spec is None else FORMATS.get(spec.name)
        if spec is None or facts is None or facts.options is None:
            continue
        parsed = resolve_name(facts.options).of(spec.options)
        for option in fields(parsed):
            meaning = getattr(parsed, option.name)
            said = _Setting.plain(meaning.name.lower() if isinstance(meaning, Enum) else meaning)
            if option.name == facts.columns_option:
                said = _Setting(meaning=meaning, text=spec.options.get(option.name, "[]"))
            found[f"{prefix}{facts.name}.{option.name}"] = said
    return found


def _in_words(settings: Mapping[str, _Setting], names: Sequence[str]) -> str:
    said = (f"no {name}" if settings[name].text is None else f"{name} = {settings[name].text}" for name in names)
    return " and ".join(said)


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
