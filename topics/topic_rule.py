"""Which topics are tiered, and how: the operator's rules, first match first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from engine.formats.codec import CodecSpec
from engine.formats.format_facts import AUTO
from engine.formats.format_guess import FormatGuess
from engine.schemas.source import SchemaSource
from engine.table.columns import TableLayout
from engine.table.commit.judge import check_settings
from engine.table.topic_table import TopicTable
from engine.table.windows import Clustering
from topics.retention_rule import RetentionRule

_INTERNAL_PREFIX = "__"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRule:
    """How the topics whose name matches ``pattern`` (a shell glob) are kept.

    ``value_format`` names a codec (raw, string, avro, …), or is AUTO, until a topic's values, or its table, tell.
    ``codec_options`` are its own, ``key_options`` those of the codec that the layout's ``key`` names. ``schema_source``
    resolves the ids that values and keys carry and is None for formats that have none; with ``use_latest`` a table has
    the columns of the newest schemas before the first record. ``infers``: the values name no schema, though there is a
    source. The stable records of the active segment are tiered when they have waited for ``freshness_ms``; with None
    they wait for the segment to close. ``clustering``: what compaction sorts rows by, None for stream order.
    ``retention``: how long records are kept; ``drops_with_topic``: whether the table goes once the topic is deleted.
    ``latest_by_key``: whether a second table shows the newest record of each key; None: where the broker compacts.
    """

    pattern: str
    value_format: str
    layout: TableLayout = field(default_factory=TableLayout)
    codec_options: Mapping[str, str] = field(default_factory=dict)
    key_options: Mapping[str, str] = field(default_factory=dict)
    schema_source: SchemaSource | None = None
    use_latest: bool = False
    freshness_ms: int | None = None
    clustering: Clustering | None = None
    latest_by_key: bool | None = None
    infers: bool = False
    retention: RetentionRule = field(default_factory=RetentionRule)
    drops_with_topic: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the format is still to be found."""
        return self.value_format == AUTO

    def settled_by(self, table: TopicTable) -> TopicRule:
        """The rule with the format of the topic's table, where it leaves that open."""
        if not self.is_open:
            return self
        return replace(
            self,
            value_format=table.codec.name,
            codec_options={**table.codec.options, **self.codec_options},
            infers=not any(schema_id >= 0 for schema_id in table.codec.schemas),
        )

    def settled_as(self, guess: FormatGuess) -> TopicRule:
        """The rule with the format that was found."""
        assert self.is_open, "a format that is set is not found"
        return replace(self, value_format=guess.name, infers=not guess.names_schemas)

    @property
    def codec(self) -> CodecSpec:
        return CodecSpec(name=self.value_format, options=self.codec_options)

    @property
    def key_codec(self) -> CodecSpec | None:
        """None where the key's column is the key itself."""
        return CodecSpec(name=self.layout.key, options=self.key_options) if self.layout.has_typed_key else None

    def check_table(self, table: TopicTable) -> None:
        """That the table was made as this rule says. Raises Invalid."""
        settled = self.settled_by(table)
        check_settings(table, settled.layout, settled.codec, settled.key_codec)

    def matches(self, topic: str) -> bool:
        return name_matches(self.pattern, topic)


def name_matches(pattern: str, topic: str) -> bool:
    """Topics of Kafka's own (``__consumer_offsets``, …) match only a pattern that begins as they do."""
    if topic.startswith(_INTERNAL_PREFIX) and not pattern.startswith(_INTERNAL_PREFIX):
        return False
    return fnmatchcase(topic, pattern)


def rule_of(topic: str, rules: Sequence[TopicRule]) -> TopicRule | None:
    """The first rule that matches, or None for a topic that is not tiered."""
    return next((rule for rule in rules if rule.matches(topic)), None)
