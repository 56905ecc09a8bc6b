"""A real REST catalog whose answers lie: each range is in the table once, and the kind of error is right."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from pyiceberg.catalog import Catalog

from engine.clock import Clock, SystemClock
from engine.errors import CommitUnknown, FloebergError, Invalid, Unavailable
from engine.fsck.check import fsck_table
from engine.table.catalog.access import open_catalog
from engine.table.catalog.rest import TIMEOUT_PROPERTY
from engine.table.commit import session as table_session
from engine.table.commit.transaction import CommitConflict
from engine.table.commit.writer import TableWriter
from engine.table.ledger import Outcome
from engine.table.topic_table import TopicTable
from tests.engine.table.table_examples import TOPIC, TOPIC_ID, StillClock, append_of, ensure_table, outcomes
from tests.support.lying_proxy import LIES, Answer, Lie, LyingProxy
from tests.support.rest_catalog import RestCatalogServer

pytestmark = [pytest.mark.catalog, pytest.mark.xdist_group("rest-catalog")]

TIMEOUT_MS = 30_000
IMPATIENT_MS = 1_000
"""Where the catalog is silent on purpose; otherwise it may take its time on a busy machine."""

ATTEMPTS = 4
"""Fewer than the writer's own: they differ in nothing but the time they take."""

_namespaces = itertools.count()


@dataclass(frozen=True, kw_only=True)
class Lied:
    """A table in a real catalog with [0, 10) committed, and the proxy that its writer asks."""

    proxy: LyingProxy
    truthful: Catalog
    properties: dict[str, str]
    namespace: str
    writer: TableWriter
    table: TopicTable

    def writer_for(self, answer: Answer | int) -> TableWriter:
        """The writer, or one that soon loses its patience where the catalog says nothing."""
        return self.impatient(StillClock()) if answer is Answer.SILENCE else self.writer

    def impatient(self, clock: Clock) -> TableWriter:
        catalog = open_catalog({**self.properties, TIMEOUT_PROPERTY: str(IMPATIENT_MS)})
        return TableWriter(catalog, clock, namespace=self.namespace)

    def check(self, end: int) -> None:
        """Every offset below ``end`` once, ledger, files and digests in agreement."""
        table = TableWriter(self.truthful, StillClock(), namespace=self.namespace).open(TOPIC, TOPIC_ID)
        assert table is not None, "the table is gone"
        rows = self.truthful.load_table(table.identifier).scan().to_arrow()
        assert sorted(rows["kafka_offset"].to_pylist()) == list(range(end))
        assert table.ledger[0].end == end
        assert fsck_table(table).findings == ()


@pytest.fixture
def lied(rest_catalog: RestCatalogServer) -> Iterator[Lied]:
    with LyingProxy(rest_catalog.uri) as proxy:
        properties = {**rest_catalog.properties, "uri": proxy.uri, TIMEOUT_PROPERTY: str(TIMEOUT_MS)}
        namespace = f"lied{next(_namespaces)}"
        writer = TableWriter(open_catalog(properties), StillClock(), namespace=namespace)
        table = ensure_table(writer)
        assert outcomes(writer, table, append_of(table, 0, 10)) == [Outcome.COMMITTED]
        proxy.commits = 0
        yield Lied(
            proxy=proxy,
            truthful=open_catalog(rest_catalog.properties),
            properties=properties,
            namespace=namespace,
            writer=writer,
            table=table,
        )


@pytest.mark.parametrize("lie", LIES, ids=str)
def test_range_is_stored_once_whatever_the_catalog_answers(lied: Lied, lie: Lie) -> None:
    lied.proxy.lies.append(lie)
    writer = lied.writer_for(lie.answer)
    assert outcomes(writer, lied.table, append_of(lied.table, 10, 20)) == [Outcome.COMMITTED]
    assert lied.proxy.commits == (1 if lie.forwarded else 2), "what has landed is not sent again"
    assert outcomes(lied.writer, lied.table, append_of(lied.table, 20, 30)) == [Outcome.COMMITTED]
    lied.check(30)


@pytest.mark.parametrize(
    "lie", [Lie(answer=504, forwarded=1), Lie(answer=409), Lie(answer=Answer.TRUTH, forwarded=2)], ids=str
)
def test_change_of_properties_alone_is_made_whatever_the_catalog_answers(lied: Lied, lie: Lie) -> None:
    lied.proxy.lies.append(lie)
    assert lied.writer.add_schemas(lied.table, {7: '"string"'}).codec.schemas == {7: '"string"'}
    lied.proxy.lies.append(lie)
    assert lied.writer.move_horizons(lied.table, log_starts={0: 5}).ledger[0].log_start == 5
    lied.check(10)


def test_one_lie_after_another_is_overcome(lied: Lied) -> None:
    lied.proxy.lies.extend(lie for lie in LIES if not lie.forwarded and lie.answer is not Answer.SILENCE)
    lied.proxy.lies.append(Lie(answer=500, forwarded=1))
    assert outcomes(lied.writer, lied.table, append_of(lied.table, 10, 20)) == [Outcome.COMMITTED]
    lied.check(20)


def test_unanswered_commit_that_lands_behind_its_repetition_is_refused_by_the_catalog(lied: Lied) -> None:
    lied.proxy.lies.extend([Lie(answer=504), Lie(answer=504, forwarded_late=True), Lie(answer=504, forwarded=1)])
    assert outcomes(lied.writer, lied.table, append_of(lied.table, 10, 20)) == [Outcome.COMMITTED]
    lied.check(20)


@pytest.mark.parametrize(
    ("answer", "kind", "attempts"),
    [
        (409, Unavailable, ATTEMPTS),
        (404, Unavailable, ATTEMPTS),
        (500, CommitUnknown, ATTEMPTS),
        (502, CommitUnknown, ATTEMPTS),
        (503, CommitUnknown, ATTEMPTS),
        (504, CommitUnknown, ATTEMPTS),
        (418, CommitUnknown, ATTEMPTS),
        (501, CommitUnknown, ATTEMPTS),
        (Answer.DROP, CommitUnknown, ATTEMPTS),
        (Answer.GARBAGE, CommitUnknown, ATTEMPTS),
        (400, Invalid, 1),
        (401, Unavailable, 2),  # the library asks once more, with a new token
        (403, Unavailable, 1),
        (429, Unavailable, 1),
    ],
    ids=str,
)
def test_catalog_that_never_commits_is_given_up_with_the_right_kind(
    lied: Lied, answer: Answer | int, kind: type[FloebergError], attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_session, "COMMIT_ATTEMPTS", ATTEMPTS)
    lied.proxy.always = Lie(answer=answer)
    append = append_of(lied.table, 10, 20)
    with pytest.raises(kind) as raised:
        lied.writer.commit(lied.table, [append])
    assert type(raised.value) is kind
    assert "\n" not in str(raised.value)
    assert lied.proxy.commits == attempts
    lied.check(10)
    lied.proxy.always = None
    assert outcomes(lied.writer, lied.table, append) == [Outcome.COMMITTED]
    lied.check(20)


@pytest.mark.parametrize("answer", [400, 403, 409], ids=str)
def test_refusal_behind_an_unanswered_commit_leaves_it_unknown(
    lied: Lied, answer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_session, "COMMIT_ATTEMPTS", ATTEMPTS)
    lied.proxy.lies.append(Lie(answer=504))
    lied.proxy.always = Lie(answer=answer)
    append = append_of(lied.table, 10, 20)
    with pytest.raises(CommitUnknown):
        lied.writer.commit(lied.table, [append])
    lied.proxy.always = None
    assert outcomes(lied.writer, lied.table, append) == [Outcome.COMMITTED]
    lied.check(20)


def test_catalog_that_never_answers_is_given_up_within_the_patience(
    lied: Lied, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_session, "COMMIT_PATIENCE_MS", IMPATIENT_MS)
    writer = lied.impatient(SystemClock())
    lied.proxy.always = Lie(answer=Answer.SILENCE, forwarded=1)
    append = append_of(lied.table, 10, 20)
    assert outcomes(writer, lied.table, append) == [Outcome.COMMITTED], "it landed, and the history says so"
    lied.proxy.commits = 0
    lied.proxy.always = Lie(answer=Answer.SILENCE)
    with pytest.raises(CommitUnknown, match="timed out"):
        writer.commit(lied.table, [append_of(lied.table, 20, 30)])
    assert lied.proxy.commits <= 2
    lied.check(20)


def test_catalog_that_goes_away_behind_a_commit_leaves_it_unknown_until_it_is_back(lied: Lied) -> None:
    append = append_of(lied.table, 10, 20)
    real_wait = lied.writer.session(TOPIC, TOPIC_ID)._turns.wait_after_silence

    def go_away(attempt: int) -> None:
        lied.proxy.whole = Answer.DROP
        real_wait(attempt)

    lied.writer.session(TOPIC, TOPIC_ID)._turns.wait_after_silence = go_away  # type: ignore[method-assign]
    lied.proxy.lies.append(Lie(answer=504, forwarded=1))
    with pytest.raises(CommitUnknown):
        lied.writer.commit(lied.table, [append])
    with pytest.raises(Unavailable) as raised:
        lied.writer.open(TOPIC, TOPIC_ID)
    assert not isinstance(raised.value, CommitConflict)
    lied.proxy.whole = None
    assert outcomes(lied.writer, lied.table, append) == [Outcome.ALREADY_THERE]
    lied.check(20)


@pytest.mark.parametrize("answer", [Answer.DROP, Answer.GARBAGE, Answer.SILENCE], ids=str)
def test_server_that_does_not_answer_as_a_catalog_is_unavailable(lied: Lied, answer: Answer) -> None:
    writer = lied.writer_for(answer)
    lied.proxy.whole = answer
    for ask in (
        lambda: lied.impatient(StillClock()),
        lambda: writer.open(TOPIC, TOPIC_ID),
        lambda: ensure_table(writer, topic="another"),
    ):
        with pytest.raises(Unavailable):
            ask()


@pytest.mark.parametrize("text", ["0", "-1", "soon"])
def test_time_limit_that_is_none_is_invalid(text: str) -> None:
    with pytest.raises(Invalid, match="milliseconds"):
        open_catalog({"type": "rest", "uri": "http://127.0.0.1:1", TIMEOUT_PROPERTY: text})
