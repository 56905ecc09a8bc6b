"""What every command starts from: the options that all of them have, and what these lead to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    # Together they take a second to import, and not every command needs them.
    from pyiceberg.catalog import Catalog

    from floeberg.settings import Settings
    from floeberg.tables.topic_tables import TopicTables

GOOD, FOUND_SOMETHING, WRONG_USAGE = 0, 1, 2
"""Exit codes: all is well; the report says what is not; the command or the settings were wrong."""


@dataclass(frozen=True)
class CommandContext:
    """``config`` is the settings file that was named, if any. Settings and catalog are opened when first used."""

    config: Path | None = None
    debug: bool = False

    @classmethod
    def of(cls, context: typer.Context) -> CommandContext:
        found = context.find_object(cls)
        assert found is not None, "the root command makes it"
        return found

    @cached_property
    def settings_file(self) -> Path | None:
        """Raises ``Invalid`` when a named file does not exist."""
        from floeberg.settings.file import find_settings_file

        return find_settings_file(self.config)

    @cached_property
    def settings(self) -> Settings:
        """What is written from the first call on is for those whom the settings name. Raises ``Invalid``."""
        from floeberg.settings.file import load_settings
        from floeberg.settings.file_access import keep_private

        settings = load_settings(self.settings_file)
        keep_private(settings)
        return settings

    @cached_property
    def catalog(self) -> Catalog:
        """Raises ``Invalid``, ``Unavailable``."""
        from engine.table.catalog.access import open_catalog

        return open_catalog(self.settings.catalog_properties)

    def compile_kernels(self) -> None:
        """What the topics' formats need and is not kept, with a word to the person. Raises ``Unavailable``."""
        from floeberg.kernels import compile_kernels, tell_person

        compile_kernels(self.settings.formats, tell=tell_person)

    @cached_property
    def tables(self) -> TopicTables:
        from floeberg.tables.topic_tables import TopicTables

        return TopicTables(self.catalog, self.settings.namespace)


def exit_with(code: int) -> None:
    """End the command with ``code``."""
    raise typer.Exit(code)
