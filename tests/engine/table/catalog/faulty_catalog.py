"""A real catalog whose commits land, or don't, and are answered otherwise."""

from __future__ import annotations

from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException


class FaultyCatalog:
    """Passes everything on to a real catalog and spoils the answers of the next commits."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._real_commit = catalog.commit_table
        self.faults: list[str] = []
        catalog.commit_table = self._commit  # type: ignore[method-assign]

    def _commit(self, *arguments: Any) -> Any:
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "conflict":
            raise CommitFailedException("planted")
        if fault == "lost before":
            raise CommitStateUnknownException("planted")
        answer = self._real_commit(*arguments)
        if fault == "lost after":
            raise CommitStateUnknownException("planted")
        if fault == "conflict after":
            raise CommitFailedException("a retry of the transport met its own commit")
        if fault == "broken pipe after":
            raise ConnectionError("planted")
        return answer
