"""``floeberg plugin``: the broker's half of native mode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from engine.errors import FloebergError
from floeberg.commands.context import FOUND_SOMETHING, CommandContext, exit_with
from floeberg.console import err, print_json, print_line, show_error
from floeberg.daemon.door_token import log_door_tokens
from floeberg.java.plugin_jar import broker_properties, write_jar, write_token
from floeberg.native.lines import BrokerFacts, LineState, PropertyLine, lines_of, lines_unasked, notes_of
from floeberg.settings import Settings


def plugin(
    context: typer.Context,
    directory: Annotated[Path, typer.Option("-o", "--output", help="Folder for the jar.")] = Path(),
    show_token: Annotated[
        bool, typer.Option("--show-token", help="Print the token instead of writing it into a file.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write the broker plugin's jar and print the lines that this broker's server.properties needs."""
    settings = CommandContext.of(context).settings
    token = log_door_tokens(settings)[0]
    jar = write_jar(directory)
    token_file = None if show_token else write_token(directory, token)
    door = settings.log_door
    own = broker_properties(
        jar=jar,
        door_url=door.url,
        token=token if token_file is None else None,
        token_file=token_file,
        ca_file=None if door.tls is None else door.tls.ca_file,
    )
    facts: BrokerFacts | None = None
    away: FloebergError | None = None
    try:
        facts = _facts(settings)
    except FloebergError as error:
        away = error
    lines = lines_of(facts, own) if facts is not None else lines_unasked(own)
    notes = notes_of(facts) if facts is not None else ()
    if as_json:
        to_put_in = {line.key: line.value for line in lines if line.state is not LineState.THERE}
        print_json(
            {
                "jar": str(jar),
                "token_file": None if token_file is None else str(token_file),
                "node_id": None if facts is None else facts.node_id,
                "problem": None if away is None else str(away),
                "server_properties": to_put_in,
                "lines": [asdict(line) for line in lines],
                "notes": notes,
            }
        )
    else:
        for text in _texts(lines, facts):
            print_line(text)
        _show_steps(settings, jar, token_file, notes)
        if away is not None:
            show_error(away)
    if away is not None:
        exit_with(FOUND_SOMETHING)


def _facts(settings: Settings) -> BrokerFacts:
    from engine.broker import KafkaBroker
    from floeberg.native.broker_facts import ask_facts

    broker = KafkaBroker(bootstrap=settings.broker.bootstrap, security=settings.broker.security)
    try:
        return ask_facts(broker, settings.broker.log_dirs)
    finally:
        broker.close()


def _texts(lines: Sequence[PropertyLine], facts: BrokerFacts | None) -> Iterator[str]:
    """The lines as a piece of server.properties: what is no setting is a comment."""
    if facts is None:
        yield "# The broker was not asked: it may need more lines than these, for its listener's security."
    else:
        yield f"# For broker {facts.node_id}, one of {facts.broker_count}."
    for line in lines:
        if line.state is LineState.THERE:
            yield f"# already there: {line.text}"
            continue
        if line.state is LineState.OTHER:
            yield f"# instead of {line.key}={line.found}:"
        elif line.state is LineState.HIDDEN:
            yield "# already there, to a value that Kafka tells nobody; it must be this one:"
        if line.to_fill_in is not None:
            yield f"# to fill in: {line.to_fill_in}"
        yield line.text


def _show_steps(settings: Settings, jar: Path, token_file: Path | None, notes: Sequence[str]) -> None:
    alter = f"kafka-configs.sh --bootstrap-server {settings.broker.bootstrap} --alter --entity-type topics"
    switch = "--add-config remote.storage.enable=true,local.retention.ms=86400000"
    to_read = f"The jar is {jar}; the broker's user must be able to read it."
    if token_file is not None:
        to_read += f" So it must {token_file}, which nobody else may: chown it where the broker's user is another one."
    steps = (
        to_read,
        "Add the lines above to the broker's server.properties and restart it; do so beside every broker.",
        "floeberg check --canary    # a topic of its own is copied, read back and removed",
        "floeberg run               # for as long as the broker runs",
        f"{alter} --entity-name TOPIC {switch}    # for each topic",
    )
    err.print("\nIn this order:", style="bold")
    for number, step in enumerate(steps, 1):
        err.print(f"  {number}. {escape(step)}", soft_wrap=True)
    err.print(
        "local.retention.ms is how long closed segments stay on the broker's disk as well (here a day), at most the"
        " topic's retention.ms. A segment is copied once it is closed: segment.bytes (1 GiB), segment.ms (7 days).",
        style="dim",
        soft_wrap=True,
    )
    for note in notes:
        err.print(f"[yellow]note:[/yellow] {escape(note)}", soft_wrap=True)
