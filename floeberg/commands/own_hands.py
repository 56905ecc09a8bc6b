"""What a command needs that writes a table's files again by itself, in its own process, beside whatever else runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.clock import Clock
from engine.errors import Invalid
from floeberg.commands.context import CommandContext

if TYPE_CHECKING:
    from compaction.replacing import FileReplacer
    from engine.table.topic_table import TopicTable
    from floeberg.settings.schema_sources import SchemaSources
    from topics.topic_schemas import TopicSchemas

_FOR_EVER_MS = 1 << 40
"""A command gives nothing up: it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnHands:
    """For the files of one topic's table."""

    schemas: TopicSchemas
    replacer: FileReplacer


def own_hands(
    command: CommandContext,
    table: TopicTable,
    sources: SchemaSources,
    clock: Clock,
    *,
    on_file: Callable[[], object] = lambda: None,
) -> OwnHands:
    """``on_file`` is called for each file, or group of files, that was written again.

    Raises Invalid: no rule for the topic, or one of another format.
    """
    command.compile_kernels()
    from floeberg.settings.rooms import topic_rules
    from topics.topic_rule import rule_of
    from topics.topic_schemas import TopicSchemas

    rule = rule_of(table.topic, topic_rules(command.settings, sources))
    rule = None if rule is None else rule.settled_by(table)
    if rule is None or rule.value_format != table.codec.name:
        found = "no [[topics]] names it" if rule is None else f"the settings say {rule.value_format}"
        raise Invalid(
            f"The topic's table has {table.codec.name} values, and {found}",
            topic=table.topic,
            next_step=f"set them to fit, or floeberg table retype {table.topic}",
        )
    replacer = own_replacer(command, clock, on_file=on_file)
    schemas = TopicSchemas(
        topic=table.topic,
        rule=rule,
        writer=replacer.writer,
        clock=clock,
        patience_ms=_FOR_EVER_MS,
        retry_ms=_FOR_EVER_MS,
    )
    return OwnHands(schemas=schemas, replacer=replacer)


def own_replacer(
    command: CommandContext, clock: Clock, *, on_file: Callable[[], object] = lambda: None
) -> FileReplacer:
    """``on_file`` as ``own_hands``."""
    command.compile_kernels()
    from compaction.replacing import FileReplacer
    from engine.table.commit.writer import TableWriter
    from engine.table.merge.merge_files import merge_files
    from engine.table.proof.verifier import Verifier
    from workers.workers import InProcessWorkers

    class ShownWorkers(InProcessWorkers):
        def run(self, work: Callable[[Any], Any], tasks: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
            for answered in super().run(work, tasks):
                if work is merge_files:
                    on_file()
                yield answered

    writer = TableWriter(
        command.catalog, clock, namespace=command.settings.namespace, history=command.settings.history.limits
    )
    return FileReplacer(writer=writer, workers=ShownWorkers(), verifier=Verifier(), parallel=1)
