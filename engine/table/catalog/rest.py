"""An Iceberg REST catalog that is asked with patience that ends: pyiceberg's client waits for an answer for ever."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any

from pydantic import ValidationError as InvalidAnswer
from pyiceberg.catalog.rest import Endpoints, RestCatalog
from pyiceberg.exceptions import CommitStateUnknownException, NoSuchTableError, RESTError
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import TableRequirement, TableUpdate
from requests import HTTPError, Session

from engine.clock import Clock
from engine.errors import Invalid
from engine.fault_points import FaultPoint, reach

_IS_NESSIE = "nessie.is-nessie-catalog"

TIMEOUT_PROPERTY = "rest.timeout-ms"
DEFAULT_TIMEOUT_MS = 30_000
"""How long a catalog may be silent: its commits take milliseconds, one that waits for a busy database some seconds."""


class BoundedRestCatalog(RestCatalog):
    """pyiceberg's REST catalog; every request has a time limit, and an answer nobody can read is none.

    Raises RESTError where an answer is not what the protocol says, ``requests``' errors where none comes.
    """

    def _config_headers(self, session: Session) -> None:
        # The library's one step between making a session and using it: signing in asks the server too.
        super()._config_headers(session)
        timeout_ms = _timeout_ms(self.properties)
        session.request = partial(session.request, timeout=timeout_ms / 1000)  # type: ignore[method-assign]

    def _fetch_config(self) -> None:
        try:
            super()._fetch_config()
        except InvalidAnswer as error:
            raise RESTError(f"{self.uri} does not answer as an Iceberg REST catalog: {error}") from error
        if self.properties.get(_IS_NESSIE) == "true":
            # Both seen in 0.99.0 (tests/engine/table/catalog/server_catalogs.py).
            raise Invalid(
                f"{self.uri} is a Nessie catalog: it takes a commit that was made for an older state of the table, and"
                " keeps no branch and no snapshot but the newest, so that records could be stored twice",
                next_step="use one of the catalogs of docs/catalogs.md",
            )

    def clock_ahead_ms(self, clock: Clock) -> int | None:
        """How far this machine's clock is ahead of the server's, less than 0 for behind, by the date that an answer has
        to the second (RFC 9110, section 6.6.1); None for an answer without one. Raises as ``requests``."""
        asked_ms = clock.now_ms()
        told = self._session.get(self.url(Endpoints.get_config, prefixed=False)).headers.get("Date")
        try:
            server_ms = None if told is None else int(parsedate_to_datetime(told).timestamp() * 1000)
        except ValueError:
            return None
        return None if server_ms is None else asked_ms - server_ms

    def load_table(self, identifier: Any) -> Table:
        try:
            return super().load_table(identifier)
        except InvalidAnswer as error:
            raise RESTError(f"the answer describes no table: {error}") from error

    def create_table(self, *arguments: Any, **named: Any) -> Table:
        try:
            return super().create_table(*arguments, **named)
        except InvalidAnswer as error:
            raise RESTError(f"the answer describes no table: {error}") from error

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """As the library's, but a 404 is NoSuchTableError and an answer that can't be read leaves the state unknown."""
        try:
            response = super().commit_table(table, requirements, updates)
            reach(FaultPoint.CATALOG_CHANGED)
            return response
        except InvalidAnswer as error:
            raise CommitStateUnknownException(f"the answer is no committed table: {error}") from error
        except RESTError as error:
            cause = error.__cause__
            if isinstance(cause, HTTPError) and cause.response is not None and cause.response.status_code == 404:
                raise NoSuchTableError(str(error)) from error
            raise


def _timeout_ms(properties: dict[str, Any]) -> int:
    text = str(properties.get(TIMEOUT_PROPERTY, DEFAULT_TIMEOUT_MS))
    if not text.isdecimal() or int(text) == 0:
        raise Invalid(f"{TIMEOUT_PROPERTY} is a number of milliseconds above 0, not {text!r}")
    return int(text)
