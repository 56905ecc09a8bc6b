"""``floeberg plugin``: the broker's half of native mode."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from floeberg.commands.context import CommandContext
from floeberg.console import err, print_json, print_line
from floeberg.door_token import log_door_token
from floeberg.plugin_jar import broker_properties, write_jar


def plugin(
    context: typer.Context,
    directory: Annotated[Path, typer.Option("-o", "--output", help="Folder for the jar.")] = Path(),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write the broker plugin's jar and print the lines for the broker's server.properties."""
    settings = CommandContext.of(context).settings
    jar = write_jar(directory)
    properties = broker_properties(jar=jar, door_url=settings.log_door.listen.url, token=log_door_token(settings))
    if as_json:
        print_json({"jar": str(jar), "server_properties": properties})
        return
    for key, value in properties.items():
        print_line(f"{key}={value}")
    err.print(
        f"\n[dim]The jar is {jar}. Add the lines above to server.properties, restart the broker, then turn it on for a"
        " topic:\n  kafka-configs.sh --alter --topic TOPIC --add-config remote.storage.enable=true,local.retention.ms=…"
        "[/dim]"
    )
