"""``floeberg table``: what is done to a topic's table as a whole."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from engine.errors import Invalid
from floeberg.commands.context import CommandContext
from floeberg.commands.retype import retype
from floeberg.console import out

table = typer.Typer(name="table", help="Do something to a topic's table as a whole.", no_args_is_help=True)


table.command("retype")(retype)


@table.command()
def rename(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(help="The topic.")],
    name: Annotated[str, typer.Argument(help="The table's new name.")],
) -> None:
    """Give a topic's table another name.

    Its __latest table gets it, too, and daemons may run. It keeps the name, also when the topic is created again; to
    rename it back, give it the topic's name.
    """
    from floeberg.tables.rename import rename_table

    command = CommandContext.of(context)
    found = command.tables.named(topic)
    renamed = rename_table(command.catalog, found, name)
    before, after = escape(".".join(found.identifier)), escape(".".join(renamed))
    out.print(f"[bold green]ok[/]  [bold]{before}[/] is {after} now", soft_wrap=True)


@table.command()
def drop(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(help="The topic.")],
    is_sure: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
) -> None:
    """Drop a topic's table and remove its files. The daemons that keep it must have ended.

    Kafka's own log is left as it is: when a daemon starts again, a new table begins with the records that are in it.
    """
    from engine.broker import KafkaBroker
    from floeberg.daemon.data_dir_lock import lock_data_dir
    from floeberg.tables.drop import remove_files, require_no_only_copy, take_from_catalog

    command = CommandContext.of(context)
    settings = command.settings
    with lock_data_dir(settings.data_dir):
        found = command.tables.named(topic)
        broker = KafkaBroker(bootstrap=settings.broker.bootstrap, security=settings.broker.security)
        try:
            require_no_only_copy(broker, topic)
        finally:
            broker.close()
        files = list(found.warehouse.list(found.location))
        mib = sum(file.size_bytes for file in files) / (1 << 20)
        name, size = ".".join(found.identifier), f"{len(files)} files, {mib:,.1f} MiB in {found.location}"
        out.print(
            f"The table {escape(name)} of the topic [bold]{escape(topic)}[/] has {escape(size)}. "
            "They are removed for good: of its records only those come back that Kafka still has. Daemons beside other "
            "brokers must have ended, too.",
            soft_wrap=True,
        )
        if not is_sure and typer.prompt("The topic's name, to drop its table") != topic:
            raise Invalid("Nothing was dropped: that is another name", topic=topic)
        count = remove_files(take_from_catalog(command.catalog, found))
        out.print(f"dropped; {count} files removed. A daemon begins a new table when it starts.")
