"""A catalog that is away when the program starts: the program runs, says so, and goes on when the catalog is back."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, cast

import structlog
from pyiceberg.catalog import Catalog

from engine.errors import Unavailable
from engine.table.catalog.access import open_catalog
from engine.table.catalog.sql import KeptMetadata

log = structlog.get_logger(__name__)


def open_catalog_when_there(properties: Mapping[str, str], kept: KeptMetadata | None = None) -> Catalog:
    """As ``open_catalog``, but a catalog that does not answer is opened with the first use that finds it there.

    Until then every use of it raises Unavailable. Raises Invalid and Corrupt at once.
    """
    try:
        return open_catalog(properties, kept)
    except Unavailable as error:
        log.warning("catalog_away", error=str(error))
        return cast("Catalog", _DeferredCatalog(properties, kept))


class _DeferredCatalog:
    def __init__(self, properties: Mapping[str, str], kept: KeptMetadata | None) -> None:
        self._given = dict(properties)
        self._kept = kept
        self._opened: Catalog | None = None
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        with self._lock:
            if self._opened is None:
                self._opened = open_catalog(self._given, self._kept)
                log.info("catalog_answers")
        return getattr(self._opened, name)
