"""What a command does to one topic's table or to all, one after the other, and how that ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn

from floeberg.commands.context import FOUND_SOMETHING, CommandContext, exit_with
from floeberg.console import err, print_json

if TYPE_CHECKING:
    from engine.table.topic_table import TopicTable


class Summary(Protocol):
    """What became of one table."""

    @property
    def is_good(self) -> bool: ...

    def to_dict(self) -> dict[str, Any]: ...


def each_table(command: CommandContext, topic: str | None, doing: str) -> Iterator[TopicTable]:
    """The table of ``topic``, without one all that there are; a terminal shows which one is worked on."""
    tables = command.tables.all() if topic is None else [command.tables.named(topic)]
    columns = (SpinnerColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        shown = progress.add_task("")
        for table in tables:
            progress.update(shown, description=f"{doing} {escape('.'.join(table.identifier))}")
            yield table


def end_with(found: Sequence[Summary], *, as_json: bool) -> None:
    """Print all as JSON where that was asked for, and end with 1 where something is not good."""
    is_good = all(one.is_good for one in found)
    if as_json:
        print_json({"good": is_good, "tables": [one.to_dict() for one in found]})
    if not is_good:
        exit_with(FOUND_SOMETHING)
