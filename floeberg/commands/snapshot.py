"""``floeberg snapshot``: the snapshot that holds a table as it was when it came to have an offset."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.markup import escape

from floeberg.commands.context import FOUND_SOMETHING, CommandContext, exit_with
from floeberg.console import out, print_json


def snapshot(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(help="The topic.")],
    offset: Annotated[int, typer.Option("--at-offset", min=0, help="An offset that the table covers.")],
    partition: Annotated[int, typer.Option("--partition", "-p", min=0, help="The offset's partition.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tell which snapshot was the first to have an offset, and how SQL engines read it.

    It is the whole table as it was then. Ends with 1 where the history has been cut since: the oldest snapshot that is
    left is told, which has the offset and maybe others after it.
    """
    from engine.table.catalog import access as catalogs
    from floeberg.tables.covering_snapshot import covering_snapshot

    command = CommandContext.of(context)
    table = command.tables.named(topic)
    loaded = catalogs.load(command.catalog, table.identifier)
    assert loaded is not None, "a table that was just looked at"
    found = covering_snapshot(table, loaded.metadata, partition=partition, offset=offset)
    name, made = ".".join(table.identifier), datetime.fromtimestamp(found.made_ms / 1000, UTC)
    clauses = {
        "DuckDB": f"AT (VERSION => {found.snapshot_id})",
        "Spark": f"VERSION AS OF {found.snapshot_id}",
        "Trino": f"FOR VERSION AS OF {found.snapshot_id}",
    }
    if as_json:
        print_json(
            {
                "good": found.is_first,
                "table": name,
                "partition": partition,
                "offset": offset,
                "snapshot_id": found.snapshot_id,
                "made": made.isoformat(),
                "covered": {"start": found.covered.start, "end": found.covered.end},
                "queries": {engine: f"SELECT * FROM {name} {clause}" for engine, clause in clauses.items()},
            }
        )
    else:
        what = "the first with" if found.is_first else "the oldest that is left, which has"
        out.print(
            f"snapshot [bold]{found.snapshot_id}[/] of {escape(name)}, {what} offset {offset} of partition {partition}",
            f"made {made:%Y-%m-%d %H:%M:%S} UTC; it has the partition's offsets up to {found.covered.end - 1}",
            sep="\n",
            soft_wrap=True,
        )
        for engine, clause in clauses.items():
            out.print(f"  {engine:<7}SELECT * FROM {escape(name)} {clause}", soft_wrap=True, highlight=False)
        if not found.is_first:
            out.print("Earlier snapshots have expired: \\[history] says how long they stay.", soft_wrap=True)
    if not found.is_first:
        exit_with(FOUND_SOMETHING)
