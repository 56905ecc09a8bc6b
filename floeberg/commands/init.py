"""``floeberg init``: asks the broker, and writes the settings."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from engine.clock import SystemClock
from engine.errors import Invalid, Unavailable
from floeberg.commands.context import CommandContext
from floeberg.console import out

if TYPE_CHECKING:
    from floeberg.settings.topic import TopicSettings
    from floeberg.setup.found_setup import FoundBroker, FoundTopic

_BOOTSTRAP = "localhost:9092"
_TOPICS_SHOWN = 20


def init(
    context: typer.Context,
    bootstrap: Annotated[str | None, typer.Option(help=f"The broker's host:port; {_BOOTSTRAP} with --yes.")] = None,
    registry: Annotated[str | None, typer.Option(help="The schema registry's URL, if there is one.")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write.")] = Path("floeberg.toml"),
    security: Annotated[
        list[str] | None, typer.Option("-X", help="NAME=VALUE: how to reach the broker, as librdkafka names it.")
    ] = None,
    node: Annotated[int | None, typer.Option(help="The broker's node id, where several are on this machine.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write over a file that is there.")] = False,
    is_sure: Annotated[bool, typer.Option("--yes", help="Ask nothing.")] = False,
) -> None:
    """Ask the broker for its log directories and topics, and write a floeberg.toml to begin with."""
    from floeberg.setup.written_settings import settings_text

    CommandContext.of(context)
    if output.exists() and not overwrite:
        raise Invalid(f"{output} is there already", next_step="name another file with --output, or add --overwrite")
    if bootstrap is None:
        bootstrap = _BOOTSTRAP if is_sure else typer.prompt("The broker's host:port", default=_BOOTSTRAP)
    if registry is None and not is_sure:
        registry = typer.prompt("The schema registry's URL, if there is one", default="", show_default=False) or None
    options = _options(security or ())
    rule = _rule(registry)
    found, topics, more = _survey(bootstrap, options, rule, node)
    text = settings_text(
        found,
        topics,
        more_topics=more,
        bootstrap=bootstrap,
        security=options,
        registry=registry,
        doors=_doors(),
    )
    _write(output, text, is_secret=bool(options), overwrite=overwrite)
    out.print(f"wrote {escape(str(output))}; next: floeberg check, then floeberg run", soft_wrap=True)


def _options(given: Sequence[str]) -> dict[str, str]:
    pairs = [option.partition("=") for option in given]
    if any(not (name and sign) for name, sign, _ in pairs):
        raise Invalid("-X is written name=value", next_step="for example -X security.protocol=SASL_SSL")
    return {name: value for name, _, value in pairs}


def _rule(registry: str | None) -> TopicSettings:
    """The rule that is written, as far as topics' formats need it."""
    from pydantic import ValidationError

    from floeberg.settings.registry import RegistrySettings
    from floeberg.settings.topic import TopicSettings

    try:
        return TopicSettings(schemas=None if registry is None else RegistrySettings(url=(registry,), cache=False))
    except ValidationError as error:
        raise Invalid(f"{registry!r} is no registry's URL", next_step="it begins with http:// or https://") from error


def _survey(
    bootstrap: str, options: dict[str, str], settings: TopicSettings, node: int | None
) -> tuple[FoundBroker, list[FoundTopic], int]:
    from engine.broker import KafkaBroker
    from floeberg.settings.schema_sources import SchemaSources
    from floeberg.setup.found_setup import find_broker, find_topics
    from topics.topic_rule import TopicRule

    broker = KafkaBroker(bootstrap=bootstrap, security=options)
    try:
        found = find_broker(broker, node_id=node)
    finally:
        broker.close()
    log_dirs = ", ".join(map(str, found.log_dirs))
    out.print(
        f"[bold]broker[/]: node {found.node_id} of the cluster {escape(found.cluster_id)}, logs in {escape(log_dirs)}",
        soft_wrap=True,
    )
    with closing(SchemaSources(Path(), SystemClock())) as sources:
        rule = TopicRule(pattern=settings.name, value_format=settings.value, schema_source=sources.of(settings))
        topics, more = find_topics(found.log_dirs, rule)
    for topic in topics[:_TOPICS_SHOWN]:
        out.print(f"[bold]topic {escape(topic.name)}[/]: {escape(topic.told)}", soft_wrap=True)
    if len(topics) + more > _TOPICS_SHOWN:
        out.print(f"and {len(topics) + more - _TOPICS_SHOWN} more topics")
    return found, topics, more


def _doors() -> dict[str, int]:
    """Other ports for the doors whose own are taken."""
    from floeberg.http.server import bound_socket
    from floeberg.processes.free_ports import free_ports
    from floeberg.settings.doors import LogDoorSettings, TableDoorSettings

    taken = []
    for section, listen in {"log_door": LogDoorSettings().listen, "table_door": TableDoorSettings().listen}.items():
        try:
            bound_socket(listen, setting=section).close()
        except Unavailable:
            taken.append(section)
    return dict(zip(taken, free_ports(len(taken)), strict=True))


def _write(output: Path, text: str, *, is_secret: bool, overwrite: bool) -> None:
    """``is_secret``: for this user's eyes, since a password may be in it."""
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        if overwrite:
            output.unlink(missing_ok=True)
        with output.open("x") as file:
            if is_secret:
                output.chmod(0o600)
            file.write(text)
    except OSError as error:
        raise Unavailable(f"The file can't be written: {error.strerror}", file=str(output)) from error
