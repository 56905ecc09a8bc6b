"""A machine whose clock is ahead of the catalog's: its commits are refused, and the error says why."""

from __future__ import annotations

import pytest

from engine.clock import SystemClock
from engine.errors import Unavailable
from engine.table.catalog.rest import BoundedRestCatalog
from engine.table.commit.clock_refusal import clock_refusal
from floeberg.setup.checks import check_catalog
from tests.engine.table.catalog.catalog_under_test import CatalogUnderTest
from tests.engine.table.table_examples import append_of, ensure_table, outcomes
from tests.support.rest_catalog import RestCatalogServer

CATALOGS_MS = 1_795_372_360_078
ANSWER = "IllegalArgumentException: Invalid update timestamp {}: before last snapshot log entry at {}"


class ShiftedClock(SystemClock):
    """The machine's, ``ahead_ms`` of the catalog's."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


@pytest.mark.parametrize(
    ("answer", "ahead_ms", "problem"),
    [
        (
            ANSWER.format(CATALOGS_MS, CATALOGS_MS + 119_000),
            120_000,
            "this machine's clock is 120 s ahead of the catalog's",
        ),
        (
            ANSWER.format(CATALOGS_MS, CATALOGS_MS + 90_000),
            0,
            "by its clock the table has a snapshot from 90 s to come",
        ),
        (ANSWER.format(CATALOGS_MS, CATALOGS_MS + 90_000), -500_000, "a snapshot from 90 s to come"),
        (
            f"Invalid update timestamp {CATALOGS_MS}: before the latest metadata log entry timestamp at {CATALOGS_MS}",
            61_000,
            "61 s ahead",
        ),
    ],
)
def test_refusal_names_the_clock_that_is_wrong(answer: str, ahead_ms: int, problem: str) -> None:
    found = clock_refusal(answer, now_ms=CATALOGS_MS + ahead_ms, where="the table")
    assert found is not None
    assert problem in str(found)
    assert "Next: " in str(found)


@pytest.mark.parametrize("answer", ["", "Invalid update timestamp", "Cannot set last sequence number 1 at 2"])
def test_refusal_of_anything_else_stays_what_it_is(answer: str) -> None:
    assert clock_refusal(answer, now_ms=0, where="the table") is None


@pytest.mark.catalog
@pytest.mark.xdist_group("rest-catalog")
def test_commits_are_refused_while_the_clock_is_ahead_and_go_on_once_it_is_right(
    rest_catalog: RestCatalogServer,
) -> None:
    clock, under_test = ShiftedClock(), CatalogUnderTest(rest_catalog.properties)
    writer, catalog = under_test.writer(clock=clock), under_test.catalog()
    assert isinstance(catalog, BoundedRestCatalog)
    table = ensure_table(writer)
    outcomes(writer, table, append_of(table, 0, 5))
    assert "answers" in check_catalog(catalog, under_test.namespace, clock).message
    assert abs(catalog.clock_ahead_ms(clock) or 0) < 5_000
    clock.ahead_ms = 120_000
    for _ in range(2):
        with pytest.raises(
            Unavailable, match=r"this machine's clock is 1[12]. s ahead of the catalog's.*Next: set the clock right"
        ):
            writer.commit(table, [append_of(table, 5, 10)])
    with pytest.raises(Unavailable, match=r"this machine's clock is 1[12]. s ahead"):
        check_catalog(catalog, under_test.namespace, clock)
    clock.ahead_ms = 0
    outcomes(writer, table, append_of(table, 5, 10))
    assert under_test.offsets(under_test.reopened()) == list(range(10))


@pytest.mark.catalog
@pytest.mark.xdist_group("rest-catalog")
def test_clock_that_is_behind_refuses_nothing(rest_catalog: RestCatalogServer) -> None:
    clock, under_test = ShiftedClock(), CatalogUnderTest(rest_catalog.properties)
    clock.ahead_ms = -3_600_000
    writer = under_test.writer(clock=clock)
    table = ensure_table(writer)
    outcomes(writer, table, append_of(table, 0, 5))
    assert "answers" in check_catalog(under_test.catalog(), under_test.namespace, clock).message
