"""``floeberg schema check``: what a table would do with one more schema, before any record names it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from engine.errors import Invalid
from engine.formats.format_facts import FORMATS, facts_of
from floeberg.commands.context import FOUND_SOMETHING, CommandContext, exit_with
from floeberg.console import out, print_json

if TYPE_CHECKING:
    from engine.formats.codec import CodecSpec, OnConflict
    from engine.formats.evolution.schema_effect import SchemaEffect
    from engine.table.topic_table import TopicTable
    from floeberg.settings import Settings

_ENDINGS = ", ".join(ending for facts in FORMATS.values() for ending in facts.schema_endings)

schema = typer.Typer(name="schema", help="What tables make of schemas.", no_args_is_help=True)


@schema.callback()
def _schema() -> None:
    """A group of commands, though it has one."""


@schema.command()
def check(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(help="The topic.")],
    file: Annotated[Path, typer.Argument(help=f"The new schema: {_ENDINGS}.")],
    of_key: Annotated[bool, typer.Option("--key", help="A schema of keys, not of values.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tell which columns a new schema would add, promote and use, and what is in conflict (exit code 1).

    Nothing is changed, and nothing asked but the catalog. A .proto file's imports are looked for beside it.
    """
    command = CommandContext.of(context)
    table = command.tables.named(topic)
    effect = effect_on(table, file, of_key=of_key, on_conflict=_on_conflict(command.settings, topic))
    if as_json:
        print_json({"topic": topic, "file": str(file), "in_conflict": bool(effect.conflicts), **effect.to_dict()})
    else:
        show_effect(effect, topic, file)
    if effect.conflicts:
        exit_with(FOUND_SOMETHING)


def effect_on(table: TopicTable, file: Path, *, of_key: bool, on_conflict: OnConflict | None) -> SchemaEffect:
    """What a schema in a file would do to a table. Raises Invalid, Unavailable."""
    from engine.formats.evolution.schema_effect import effect_of
    from engine.formats.proposals import propose_schema

    codec, fields = (table.key_codec, table.key_fields) if of_key else (table.codec, table.value_fields)
    if codec is None:
        raise Invalid("The topic's keys have no schemas", topic=table.topic)
    proposal = propose_schema(
        codec,
        fields,
        _read(file, codec, table.topic),
        is_reserved=_none if of_key else table.layout.is_metadata,
        on_conflict=on_conflict,
    )
    return effect_of(fields, proposal)


def _read(file: Path, codec: CodecSpec, topic: str) -> str:
    from engine.schemas.folder import read_schema

    endings = facts_of(codec.name).schema_endings
    if not endings:
        raise Invalid(f"The topic's format, {codec.name}, has no schemas", topic=topic)
    if not file.name.endswith(endings):
        raise Invalid(
            f"The topic's format is {codec.name}, and {file.name} ends otherwise",
            topic=topic,
            next_step=f"name a file that ends with {' or '.join(endings)}",
        )
    if not file.is_file():
        raise Invalid("The schema's file is not there", file=str(file))
    return read_schema(file, codec.name, file.parent)


def _none(_name: str) -> bool:
    return False


def _on_conflict(settings: Settings, topic: str) -> OnConflict | None:
    """The setting of the day, for schemas are added by it; None where no rule has the topic any more."""
    from engine.formats.codec import OnConflict
    from topics.topic_rule import TopicRule

    for rule in settings.topics:
        if TopicRule(pattern=rule.name, value_format=rule.value).matches(topic):
            return OnConflict(rule.on_conflict)
    return None


def show_effect(effect: SchemaEffect, topic: str, file: Path) -> None:
    """For a person: a line that sums it up, then a line for each thing."""
    count = len(effect.conflicts)
    verdict = f"[bold red]{count} in conflict[/]" if count else "[bold green]ok[/]"
    out.print(f"{verdict}  {escape(str(file))} for the table of [bold]{escape(topic)}[/]", soft_wrap=True)
    lines: list[tuple[str, Any]] = [
        *(("add", f"{column}  {kind}") for column, kind in effect.added),
        *(("promote", f"{column}  {old} to {new}") for column, old, new in effect.promoted),
        *(("lands in", f"{path}: the column {column}") for path, column in effect.elsewhere),
        *(("no column", line) for line in effect.without_column),
        *(("conflict", line) for line in effect.conflicts),
    ]
    for what, line in lines:
        out.print(f"    {what:<10}{escape(line)}", soft_wrap=True)
    if not lines:
        out.print("    the table has all of its columns")
