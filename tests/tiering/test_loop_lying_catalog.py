"""The whole loop on a real REST catalog that lies, is away, and comes back: every record once, the operator told."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.clock import SystemClock
from engine.errors import CommitUnknown, FloebergError, Unavailable
from engine.fsck.check import fsck_table
from engine.table.catalog.access import open_catalog
from engine.table.catalog.deferred import open_catalog_when_there
from engine.table.catalog.rest import TIMEOUT_PROPERTY
from engine.table.commit import session as table_session
from engine.table.commit.writer import TableWriter
from engine.topic_partition import TopicIdPartition
from floeberg.daemon.status_board import StatusBoard
from tests.support.lying_proxy import LIES, Answer, Lie, LyingProxy
from tests.support.rest_catalog import RestCatalogServer
from tests.tiering.tiering_world import TieringWorld, ranges_of, report_of
from tiering.loop import TieringLoop
from tiering.tiering_limits import TieringLimits

pytestmark = [pytest.mark.catalog, pytest.mark.xdist_group("rest-catalog")]

TIMEOUT_MS = 30_000
IMPATIENT_MS = 1_000
"""Where the catalog is silent on purpose; otherwise it may take its time on a busy machine."""
_LONGEST_RETRY_MS = 60_000
"""Longer than any wait between two tries of a partition."""

_namespaces = itertools.count()


class LyingWorld(TieringWorld):
    """A world whose loop asks the REST catalog through the proxy, while the checks ask it directly."""

    def __init__(self, root: Path, server: RestCatalogServer, proxy: LyingProxy) -> None:
        super().__init__(root)
        self.proxy = proxy
        self.namespace = f"loop{next(_namespaces)}"
        self.catalog = open_catalog(server.properties)
        self.lied = {**server.properties, "uri": proxy.uri}

    def writer(self) -> TableWriter:
        return TableWriter(self.catalog, self.clock, namespace=self.namespace)

    def lied_to_loop(self, answer: Answer | int = Answer.TRUTH) -> TieringLoop:
        """A loop behind the proxy, one that soon loses its patience where the catalog says nothing."""
        timeout_ms = IMPATIENT_MS if answer is Answer.SILENCE else TIMEOUT_MS
        catalog = open_catalog_when_there({**self.lied, TIMEOUT_PROPERTY: str(timeout_ms)})
        return self.loop(writer=TableWriter(catalog, self.clock, namespace=self.namespace))

    def check(self, partition: TopicIdPartition, end: int) -> None:
        """Each record below ``end`` once; log, files, ledger and digests agree."""
        assert self.offsets(partition) == list(range(end))
        report = fsck_table(self.table(partition), log_dirs=[self.broker.log_dir])
        assert report.findings == ()
        assert report.partitions[0].compared, "the log has been compared"

    def data_files(self) -> int:
        return sum(1 for _ in self.warehouse_folder().rglob("*.parquet"))

    def warehouse_folder(self) -> Path:
        return Path(self.lied["warehouse"].removeprefix("file://")) / self.namespace


@pytest.fixture
def world(tmp_path: Path, rest_catalog: RestCatalogServer) -> Iterator[LyingWorld]:
    with LyingProxy(rest_catalog.uri) as proxy:
        yield LyingWorld(tmp_path, rest_catalog, proxy)


def values(start: int, end: int) -> list[bytes]:
    return [f"value {number}".encode() for number in range(start, end)]


@pytest.fixture
def orders(world: LyingWorld) -> TopicIdPartition:
    (partition,) = world.broker.create_topic("orders")
    world.broker.append_segment(partition, values(0, 10))
    return partition


def test_loop_tiers_every_segment_once_through_every_lie(world: LyingWorld, orders: TopicIdPartition) -> None:
    loops = {answer: world.lied_to_loop(answer) for answer in (Answer.TRUTH, Answer.SILENCE)}
    loops[Answer.TRUTH].cycle()
    for number, lie in enumerate(LIES, start=1):
        loop = loops.get(lie.answer, loops[Answer.TRUTH])
        world.broker.append_segment(orders, values(10 * number, 10 * number + 10))
        world.proxy.lies.append(lie)
        report = loop.cycle()
        assert report.is_good, f"{lie}: {report.problems} {report_of(report, orders).problem}"
        assert ranges_of(report, orders) == [(10 * number, 10 * number + 10)], str(lie)
        assert not world.proxy.lies
    world.check(orders, 10 * len(LIES) + 10)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (409, Unavailable),
        (429, Unavailable),
        (500, CommitUnknown),
        (503, CommitUnknown),
        (Answer.GARBAGE, CommitUnknown),
        (Answer.SILENCE, CommitUnknown),
    ],
    ids=str,
)
def test_catalog_that_commits_nothing_is_told_and_costs_few_files_until_it_does(
    world: LyingWorld,
    orders: TopicIdPartition,
    answer: Answer | int,
    kind: type[FloebergError],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table_session, "COMMIT_ATTEMPTS", 2)
    loop = world.lied_to_loop(answer)
    board = StatusBoard(version="test", clock=SystemClock(), limits=TieringLimits())
    loop.on_cycle(board.note_cycle)
    loop.cycle()
    written = world.data_files()
    world.broker.append_segment(orders, values(10, 20))
    world.proxy.always = Lie(answer=answer)
    for _ in range(12):
        report = loop.cycle()
        assert ranges_of(report, orders) == []
        assert type(report_of(report, orders).problem) is kind
    assert world.data_files() - written <= 3, "a partition that fails is tried less and less often"
    (told,) = board.status().partitions
    assert told.problem is not None
    assert "commit" in told.problem
    world.check(orders, 10)
    world.proxy.always = None
    world.clock.unseen_ms += _LONGEST_RETRY_MS
    report = loop.cycle()
    assert ranges_of(report, orders) == [(10, 20)]
    assert report.is_good
    world.check(orders, 20)


@pytest.mark.parametrize("answer", [Answer.DROP, Answer.GARBAGE, Answer.SILENCE], ids=str)
def test_catalog_that_is_away_at_the_start_is_waited_for(
    world: LyingWorld, orders: TopicIdPartition, answer: Answer
) -> None:
    world.proxy.whole = answer
    loop = world.lied_to_loop(answer)
    for _ in range(2):
        report = loop.cycle()
        assert isinstance(report_of(report, orders).problem, Unavailable)
        assert "catalog" in str(report_of(report, orders).problem)
    assert not world.warehouse_folder().exists(), "nothing is rewritten for a table that nobody can open"
    world.proxy.whole = None
    world.clock.unseen_ms += _LONGEST_RETRY_MS
    assert ranges_of(loop.cycle(), orders) == [(0, 10)]
    world.check(orders, 10)


def test_catalog_that_goes_away_between_cycles_is_waited_for(world: LyingWorld, orders: TopicIdPartition) -> None:
    loop = world.lied_to_loop()
    loop.cycle()
    world.broker.append_segment(orders, values(10, 20))
    world.proxy.whole = Answer.DROP
    written = world.data_files()
    for _ in range(6):
        assert isinstance(report_of(loop.cycle(), orders).problem, CommitUnknown | Unavailable)
    assert world.data_files() - written <= 1, "a table that can't be opened gets no more files"
    world.proxy.whole = None
    world.clock.unseen_ms += _LONGEST_RETRY_MS
    assert ranges_of(loop.cycle(), orders) == [(10, 20)]
    world.check(orders, 20)


def test_catalog_killed_behind_or_before_a_commit_is_asked_again_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RestCatalogServer(tmp_path / "catalog") as server, LyingProxy(server.uri) as proxy:
        world = LyingWorld(tmp_path / "world", server, proxy)
        (orders,) = world.broker.create_topic("orders")
        world.broker.append_segment(orders, values(0, 10))
        loop = world.lied_to_loop()
        loop.cycle()
        real_forward = proxy._forward
        for number, times in enumerate((1, 0), start=1):

            def forward_and_die(*asked: str, times: int = times) -> object:
                reply = real_forward(*asked) if times else None
                server.kill()
                return reply

            world.broker.append_segment(orders, values(10 * number, 10 * number + 10))
            proxy.lies.append(Lie(answer=Answer.DROP, forwarded=1))
            with monkeypatch.context() as patched:
                patched.setattr(proxy, "_forward", forward_and_die)
                report = loop.cycle()
            assert isinstance(report_of(report, orders).problem, CommitUnknown)
            server.start()
            world.clock.unseen_ms += _LONGEST_RETRY_MS
            assert ranges_of(loop.cycle(), orders) == ([] if times else [(10 * number, 10 * number + 10)])
            world.check(orders, 10 * number + 10)
