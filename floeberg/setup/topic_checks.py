"""What becomes of each topic here, by the settings, its table and its first records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import groupby

from engine.clock import Clock
from engine.errors import FloebergError
from engine.formats.format_guess import FormatGuess
from engine.kafka_log.log_directory import PartitionDirectory, scan_log_directories
from engine.kafka_log.segment import list_segments
from engine.table.catalog.access import is_retired
from engine.table.topic_table import TopicTable
from engine.topic_partition import TopicIdPartition
from floeberg.native.broker_facts import meta_properties
from floeberg.settings import Settings
from floeberg.settings.rooms import topic_rules
from floeberg.settings.schema_sources import SchemaSources
from floeberg.setup.check_result import CheckResult, Verdict, good, note
from floeberg.setup.topic_formats import guess_here
from floeberg.tables.topic_tables import TopicTables
from topics.topic_rule import TopicRule, rule_of

MOST_TOLD = 20
"""Topics in a line each: a check is read by a person."""


def check_topics(
    tables: TopicTables, settings: Settings, clock: Clock, *, leaders: Mapping[TopicIdPartition, int] | None
) -> Iterator[CheckResult]:
    """The topics whose partitions lie here, then the rules that none of them has. ``leaders``: the nodes that lead
    partitions; None where the broker did not say. Raises Unavailable."""
    found = scan_log_directories(settings.broker.log_dirs).live
    by_topic = {
        topic: tuple(partitions)
        for topic, partitions in groupby(
            sorted(found, key=lambda one: (one.partition.topic, one.partition.partition)),
            key=lambda one: one.partition.topic,
        )
    }
    made = {table.topic: table for table in tables.all() if not is_retired(table.identifier, table.topic_id)}
    with closing(SchemaSources(settings.data_dir, clock)) as sources:
        rules = topic_rules(settings, sources)
        kept = {topic: rule for topic in by_topic if (rule := rule_of(topic, rules)) is not None}
        for topic, rule in list(kept.items())[:MOST_TOLD]:
            elsewhere = _led_elsewhere(by_topic[topic], leaders)
            yield elsewhere or _of_topic(topic, rule, by_topic[topic], made.get(topic))
    if len(kept) > MOST_TOLD:
        yield good("topics", f"{len(kept) - MOST_TOLD} more have partitions here, and are not looked at")
    yield from _unused(rules, kept)


def _led_elsewhere(
    partitions: Sequence[PartitionDirectory], leaders: Mapping[TopicIdPartition, int] | None
) -> CheckResult | None:
    """That this daemon will not tier the topic, where that is so."""
    own = meta_properties(partitions[0].path.parent).get("node.id")
    led_by = {-1 if leaders is None else leaders.get(one.partition, -1) for one in partitions}
    if leaders is None or str(own) in map(str, led_by):
        return None
    nodes = ", ".join(map(str, sorted(led_by - {-1})))
    name = f"topic {partitions[0].partition.topic}"
    if not nodes:
        return note(name, "no broker leads its partitions here", "see the broker's log: is the topic being deleted?")
    return note(name, f"its partitions here are led by node {nodes}: the daemon beside that broker tiers them")


def _of_topic(
    topic: str, rule: TopicRule, partitions: Sequence[PartitionDirectory], table: TopicTable | None
) -> CheckResult:
    name = f"topic {topic}"
    if table is not None and {one.partition.topic_id for one in partitions} == {table.topic_id}:
        return good(name, f"value = {table.codec.name}, as the table {'.'.join(table.identifier)} has it")
    if not any(segment.size_bytes for one in partitions for segment in list_segments(one.path)):
        return note(name, "no record yet; it gets a table with the first one")
    if rule.freshness_ms is None and all(len(list_segments(one.path)) < 2 for one in partitions):
        return note(
            name,
            'freshness_ms = "closed", and no segment is closed yet: it has no table until Kafka closes one',
            "Kafka does by the topic's segment.bytes and segment.ms; a freshness_ms of its own does not wait for that",
        )
    if not rule.is_open:
        return good(name, f"value = {rule.value_format}, as the settings say; its table is made with the first commit")
    try:
        guess = guess_here(rule, topic, partitions)
    except FloebergError as error:
        return CheckResult(name=name, verdict=Verdict.WRONG, message=error.problem, next_step=error.next_step)
    return _of_guess(name, guess)


def _of_guess(name: str, guess: FormatGuess | None) -> CheckResult:
    if guess is None:
        return note(
            name,
            "its first records are all tombstones or empty; it gets a table once a value tells its format",
            "or name the format in [[topics]]",
        )
    found = f"value = {guess.name}: {guess.why}"
    if guess.has_unknown_schemas:
        return note(name, found, 'if they are of a schema registry, name it: [[topics]] schemas = "http://…"')
    return good(name, f"{found}; its table is made with the first commit, and keeps that")


def _unused(rules: Sequence[TopicRule], kept: Mapping[str, TopicRule]) -> Iterator[CheckResult]:
    used = set(map(id, kept.values()))
    for rule in rules:
        if id(rule) not in used:
            yield note(
                f"topics {rule.pattern}",
                "no topic with a partition in these log directories is kept by this rule",
                "is the name right, and does no rule before it take its topics?",
            )
