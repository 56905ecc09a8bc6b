"""How far the two ways of the data lead through the product's files: ``python -m tests.house.ways``.

The one leads from a closed segment to a committed file, the other from a broker's request at the log door to record
batches. Each is gone in this process, in all its threads, after everything that happens once has happened.
"""

from __future__ import annotations

import argparse
import http.client
import json
import logging
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

import structlog

from engine.offset_range import OffsetRange
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from engine.schemas.folder import SchemaFolder
from engine.table.catalog.access import DEFAULT_NAMESPACE
from engine.table.proof.verifier import Verifier
from engine.topic_partition import TopicIdPartition
from floeberg.http.server import HttpServer
from floeberg.settings.doors import Listen
from floeberg.tables.topic_tables import TopicTables
from serving.log.auxiliary_store import AuxiliaryStore
from serving.log.commit_signal import CommitSignal
from serving.log.damage_watch import DamageWatch
from serving.log.door import create_log_door
from serving.log.tiered_log import TieredLog
from tests.tiering.broker_on_disk import let_settle
from tests.tiering.tiering_world import TieringWorld
from topics.topic_rule import TopicRule

ROOT = Path(__file__).resolve().parent.parent.parent
ROOMS = ("engine", "topics", "workers", "tiering", "compaction", "retention", "serving", "streams", "floeberg")
TOPIC = "orders"
TOKEN = "open-sesame"
SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": n, "type": t} for n, t in (("id", "long"), ("word", "string"))],
}
"""Flat: a nested one is gone through by functions that call themselves, as deep as it is."""
VALUE = b"\0\0\0\0\1" + b"\x02" + b"\x06abc"
"""Schema 1; 1; abc."""
RECORDS = 500
"""Of a segment: one row group, with nothing to be made ahead of its reader."""
QUIET_SECONDS = 0.05
"""An answer is read before its last function has returned."""

_INLINED = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})
"""Frames of their own up to Python 3.11 only."""


class Way:
    """What is called of the product while ``watched``: in this thread, and in threads begun since this was made."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, CodeType]] = Counter()
        self.file_changes = 0
        self.deepest: list[str] = []
        self._files: dict[str, str | None] = {}
        self._is_watched = False
        threading.setprofile(self._note)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """The block, and what other threads still do for it after its end."""
        sys.setprofile(self._note)
        self._is_watched = True
        try:
            yield
        finally:
            sys.setprofile(None)
            self._await_quiet()
            self._is_watched = False
            threading.setprofile(None)

    @property
    def files(self) -> Counter[str]:
        """Calls by file."""
        found: Counter[str] = Counter()
        for (file, _), count in self.calls.items():
            found[file] += count
        return found

    def _await_quiet(self) -> None:
        seen = -1
        while seen != self.calls.total():
            seen = self.calls.total()
            time.sleep(QUIET_SECONDS)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not self._is_watched:
            return
        file = self._file(frame.f_code)
        if file is None:
            return
        stack = [(file, frame)]
        caller = frame.f_back
        while caller is not None:
            of = self._file(caller.f_code)
            if of is not None:
                stack.append((of, caller))
            caller = caller.f_back
        self.calls[file, frame.f_code] += 1
        self.file_changes += len(stack) > 1 and stack[1][0] != file
        if len(stack) > len(self.deepest):
            self.deepest = [f"{of}:{each.f_lineno} {each.f_code.co_qualname}" for of, each in reversed(stack)]

    def _file(self, code: CodeType) -> str | None:
        """Below the root; None for what is not the product's."""
        if code.co_filename not in self._files:
            path = Path(code.co_filename)
            inside = path.relative_to(ROOT) if path.is_relative_to(ROOT) else None
            ours = inside is not None and inside.parts[0] in ROOMS
            self._files[code.co_filename] = str(inside) if ours else None
        return None if code.co_name in _INLINED else self._files[code.co_filename]


class _NoBroker:
    def log_start(self, topic_id: str, partition: int) -> int | None:
        return None

    def hurry(self) -> None:
        raise AssertionError("nobody copies")


def _append_segment(world: TieringWorld, partition: TopicIdPartition) -> None:
    world.broker.append_segment(partition, [VALUE] * RECORDS)
    let_settle(world.broker.log_dir)


def _tiered(way: Way, world: TieringWorld, partition: TopicIdPartition, schemas: Path) -> None:
    """A loop that has made the table, and committed one segment to it, sees the next."""
    rule = TopicRule(pattern=TOPIC, value_format="avro", schema_source=SchemaFolder(schemas))
    loop = world.loop(rules=(rule,))
    for _ in range(2):
        _append_segment(world, partition)
        report = loop.cycle()
        assert report.files == 1, report.problems
    _append_segment(world, partition)
    with way.watched():
        report = loop.cycle()
    assert report.files == 1, report.problems


@contextmanager
def _door(world: TieringWorld, partition: TopicIdPartition) -> Iterator[http.client.HTTPConnection]:
    """A client of a log door as the daemon opens it, which has read nothing."""
    reader = LogReader(file_index=FileIndex())
    backend = TieredLog(
        tables=TopicTables(world.catalog, DEFAULT_NAMESPACE, topic_of={partition.topic_id: TOPIC}.get),
        reader=reader,
        verifier=Verifier(),
        tiering=_NoBroker(),
        store=AuxiliaryStore(),
    )
    watch = DamageWatch(backend, topic_of=backend.topic_of, forget=reader.forget)
    routes = create_log_door(watch, tokens=[TOKEN], commits=CommitSignal())
    with HttpServer(routes, Listen(host="127.0.0.1", port=0), setting="[log_door] listen") as server, watch:
        client = http.client.HTTPConnection(server.listen.host, server.listen.port, timeout=20)
        yield client
        client.close()
    reader.close()


def _fetch(client: http.client.HTTPConnection, partition: TopicIdPartition, segment: OffsetRange) -> None:
    path = f"/v1/log/{partition.topic_id}/{partition.partition}/records?start={segment.start}&end={segment.end}"
    client.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
    answer = client.getresponse()
    body = answer.read()
    assert answer.status == 200, body
    assert body


def _fetch_nothing(client: http.client.HTTPConnection) -> None:
    """The server has accepted the connection when it answers."""
    client.request("GET", "/")
    answer = client.getresponse()
    answer.read()
    assert answer.status == 404


def _fetched(way: Way, world: TieringWorld, partition: TopicIdPartition) -> None:
    """The first request that a door gets, in a process where another door had one before."""
    segment = OffsetRange(start=RECORDS, end=2 * RECORDS)
    with _door(world, partition) as client:
        _fetch(client, partition, segment)
    with _door(world, partition) as client:
        _fetch_nothing(client)
        with way.watched():
            _fetch(client, partition, segment)


def measure() -> dict[str, Way]:
    """Both ways, by name. For a process of its own: threads that began earlier would go unseen."""
    ways = {"segment": Way()}
    with tempfile.TemporaryDirectory() as folder:
        schemas = Path(folder) / "schemas"
        schemas.mkdir()
        (schemas / "1.avsc").write_text(json.dumps(SCHEMA))
        world = TieringWorld(Path(folder) / "world")
        (partition,) = world.broker.create_topic(TOPIC)
        _tiered(ways["segment"], world, partition, schemas)
        ways["fetch"] = Way()
        _fetched(ways["fetch"], world, partition)
    return ways


def _folder(file: str) -> str:
    return str(Path(file).parent)


def _print_table(ways: dict[str, Way]) -> None:
    rows = {
        "deepest stack": [len(way.deepest) for way in ways.values()],
        "files": [len(way.files) for way in ways.values()],
        "functions": [len(way.calls) for way in ways.values()],
        "calls": [way.calls.total() for way in ways.values()],
        "changes of file": [way.file_changes for way in ways.values()],
    }
    folders = [Counter(map(_folder, way.files)) for way in ways.values()]
    for folder in sorted(set().union(*folders)):
        rows[f"files in {folder}"] = [found[folder] for found in folders]
    print(f"{'':32}" + "".join(f"{name:>10}" for name in ways))
    for title, figures in rows.items():
        print(f"{title:32}" + "".join(f"{figure:10}" for figure in figures))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.house.ways", description=__doc__)
    parser.add_argument("--deepest", action="store_true", help="print each way's deepest stack")
    parser.add_argument("--files", action="store_true", help="print each way's files with the number of their calls")
    options = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    ways = measure()
    _print_table(ways)
    for name, way in ways.items():
        if options.deepest:
            print(f"\n{name}, deepest stack:", *way.deepest, sep="\n  ")
        if options.files:
            print(f"\n{name}, calls by file:")
            print(*(f"{count:7,}  {file}" for file, count in sorted(way.files.items())), sep="\n")


if __name__ == "__main__":
    main()
