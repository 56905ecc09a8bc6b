"""Which catalog the tables are in."""

from __future__ import annotations

from engine.table.catalog.access import embedded_catalog_properties
from floeberg.settings import Settings


def catalog_properties(settings: Settings) -> dict[str, str]:
    """The settings' own catalog, or the embedded one below ``data_dir``."""
    return settings.catalog.properties or embedded_catalog_properties(settings.data_dir)
