"""The broker's side of the log door, without a network: copies, reads and deletes of a native topic's segments."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.types import Message

from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from engine.table.proof.verifier import Verifier
from engine.topic_partition import TopicIdPartition
from floeberg.daemon.door_token import log_door_tokens
from floeberg.settings import BrokerSettings, Settings
from floeberg.tables.topic_tables import TopicTables
from serving.log.auxiliary_state import AuxiliaryState
from serving.log.auxiliary_store import AuxiliaryStore
from serving.log.commit_signal import CommitSignal
from serving.log.door import create_log_door
from serving.log.tiered_log import TieredLog
from tests.tiering.tiering_world import TieringWorld
from tiering.loop import TieringLoop

STATE = AuxiliaryState(leader_epochs=b"0\n1\n0 0\n", producer_snapshot=b"snapshot")


class DoorClient:
    """Does for the native topic what its broker would: a segment is dropped locally at the very moment its copy is
    answered."""

    def __init__(self, world: TieringWorld, loop: TieringLoop, *, segment_records: int) -> None:
        self._world = world
        self._loop = loop
        self._segment_records = segment_records
        settings = Settings(
            broker=BrokerSettings(bootstrap="none:1", log_dirs=(world.broker.log_dir,)), data_dir=world.root / "data"
        )
        self._token = log_door_tokens(settings)[0]
        backend = TieredLog(
            tables=TopicTables(world.catalog, "kafka"),
            reader=LogReader(file_index=FileIndex(cache_directory=world.root / "data" / "cache" / "footers")),
            verifier=Verifier(),
            tiering=self,
            store=AuxiliaryStore(),
        )
        self._app = Starlette(routes=create_log_door(backend, tokens=[self._token], commits=CommitSignal()))

    # What the log door asks of tiering.
    def log_start(self, topic_id: str, partition: int) -> int | None:
        return self._loop.log_start(topic_id, partition)

    def hurry(self) -> None:
        raise AssertionError("a segment that is asked for is not tiered")

    async def do_the_brokers_share(self) -> None:
        """Copy what is local, read what is not, delete what lies below the log start."""
        (partition,) = self._world.broker.port.partitions(["history"])
        *closed, active = sorted(int(path.stem) for path in self._world.broker.directory(partition).glob("*.log"))
        for start in closed:
            await self._copy(partition, start)
        log_start = self._world.broker.view(partition).log_start_offset
        for start in range(log_start, active, self._segment_records):
            await self._read(partition, start)
        if log_start:
            await self.ask("DELETE", partition)

    async def _copy(self, partition: TopicIdPartition, start: int) -> None:
        segment = self._world.broker.directory(partition) / f"{start:020d}.log"
        status, body = await self.ask(
            "POST", partition, "/copy", start, body=STATE.to_bytes(), when_answered=segment.unlink
        )
        assert status == 200, body
        assert json.loads(body) == {"copied": {"start": start, "end": start + self._segment_records}}

    async def _read(self, partition: TopicIdPartition, start: int) -> None:
        for what in ("/records", "/index/offset", "/index/timestamp", "/index/leader-epoch"):
            status, body = await self.ask("GET", partition, what, start)
            assert status == 200, (what, body)
        status, body = await self.ask("GET", partition, "/index/producer-snapshot", start)
        assert (status, body) == (200, STATE.producer_snapshot)

    async def ask(
        self,
        method: str,
        partition: TopicIdPartition,
        what: str = "",
        start: int = 0,
        *,
        body: bytes = b"",
        when_answered: Callable[[], None] | None = None,
    ) -> tuple[int, bytes]:
        """(status, body). ``when_answered`` is called as soon as the last byte of a good answer is there."""
        path = f"/v1/log/{partition.topic_id}/{partition.partition}{what}"
        query = urlencode({"start": start, "end": start + self._segment_records})
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [
                (b"authorization", f"Bearer {self._token}".encode()),
                (b"content-length", str(len(body)).encode()),
            ],
        }
        requests = [{"type": "http.request", "body": body, "more_body": False}]
        answer = bytearray()
        status = 0
        answered = asyncio.Event()

        async def receive() -> Message:
            if requests:
                return requests.pop()
            await answered.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            answer.extend(message.get("body", b""))
            is_whole = message["type"] == "http.response.body" and not message.get("more_body", False)
            if is_whole and status == 200 and when_answered is not None:
                when_answered()
            if is_whole:
                answered.set()

        await self._app(scope, receive, send)
        return status, bytes(answer)
