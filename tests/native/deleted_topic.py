"""A topic that is deleted at its broker, whose history is in the table only: what the broker asks for, and what becomes
of the table."""

from __future__ import annotations

from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from confluent_kafka.admin import AdminClient
from pyiceberg.exceptions import NoSuchTableError

from engine.offset_range import OffsetRange
from engine.table.catalog.access import DEFAULT_NAMESPACE, Identifier, retired_identifier
from engine.table.commit.writer import TableWriter
from engine.table.companion_folder import companion_folder
from engine.table.topic_table import TopicTable
from floeberg.daemon.assembly import seen_here
from retention.gone_topic_watch import GoneTopicWatch
from retention.sweep_limits import SweepLimits
from retention.sweep_loop import FIRST_LOOK_MS, SweepLoop
from tests.native.stage import TIERED, TOKEN, NativeStage, Sent, eventually
from tests.tiering.tiering_world import SettableClock
from topics.gone_topic_status import GoneTopicStatus

LIMITS = SweepLimits()
_READS = ("records", "index/offset", "index/timestamp", "index/leader-epoch")


def fill(stage: NativeStage, topic: str, sent: list[Sent]) -> TopicTable:
    """Of a topic that is created: every record is in the table alone."""
    stage.create(topic, TIERED)
    stage.produce(topic, sent)
    # The broker rolls an active segment whose records are older than its local retention.
    empty = [f"{len(sent):020d}"]
    eventually(lambda: stage.local_segments(topic) == empty, lambda: stage.describe(topic))
    return stage.table(topic)


class DeletedTopic:
    """Filled and deleted. ``asked``: path and query of each of the broker's requests to delete a copy. The clock of
    what looks after its table is moved by ``pass_grace`` alone."""

    def __init__(self, stage: NativeStage, topic: str, sent: list[Sent], folder: Path) -> None:
        self.stage, self.topic = stage, topic
        self.table = fill(stage, topic, sent)
        self.stored = OffsetRange(start=0, end=len(sent))
        self.retired = retired_identifier(self.table.identifier, self.table.topic_id)
        self._clock = SettableClock()
        self._gone = GoneTopicWatch(
            broker=stage.seam,
            catalog=stage.catalog,
            namespace=DEFAULT_NAMESPACE,
            rules=stage.rules,
            clock=self._clock,
            limits=LIMITS,
            folder=folder,
            here=lambda: seen_here(stage.tiering.report),
        )
        self._sweeps = SweepLoop(
            catalog=stage.catalog,
            namespace=DEFAULT_NAMESPACE,
            writer=TableWriter(stage.catalog, self._clock),
            clock=self._clock,
            limits=LIMITS,
            folder=folder,
            gone=self._gone,
        )
        self.asked = self._delete()

    def status(self) -> GoneTopicStatus | None:
        """What a daemon says of its table that looks now; None of one that it does not know any more."""
        self._gone.look()
        return next((one for one in self._gone.report() if one.topic_id == self.table.topic_id), None)

    def pass_grace(self) -> GoneTopicStatus | None:
        """With a look at its end, and every sweep that is due."""
        self._clock.ahead_ms += LIMITS.grace_ms
        found = self.status()
        while self._sweeps.turn():
            pass
        self._clock.ahead_ms += FIRST_LOOK_MS + LIMITS.interval_ms
        return found

    def files(self) -> list[str]:
        """Of its table."""
        folders = (self.table.location, companion_folder(self.table.location))
        return [file.path for folder in folders for file in self.table.warehouse.list(folder)]

    def rows(self, name: Identifier) -> list[tuple[int, bytes | None]] | None:
        """Offsets and values as SQL finds them; None where there is no such table."""
        try:
            found = self.stage.catalog.load_table(name).scan().to_arrow().sort_by("kafka_offset")
        except NoSuchTableError:
            return None
        return list(zip(found["kafka_offset"].to_pylist(), found["value"].to_pylist(), strict=True))

    def ask_to_delete_again(self) -> list[int]:
        """The broker's own requests once more; the status of each answer."""
        return [self._answer("DELETE", target)[0] for target in self.asked]

    def await_reads(self, status: int, told: bytes = b"") -> None:
        """Until every kind of read of its first copy is answered so: one that takes long is told to come back."""
        first = urlsplit(min(self.asked, key=lambda target: _range(target).start))
        targets = [f"{first.path}/{kind}?{first.query}" for kind in _READS]

        def is_so() -> bool:
            answers = [self._answer("GET", target) for target in targets]
            return all(found == status and told in text for found, text in answers)

        eventually(is_so, lambda: f"{[(target, self._answer('GET', target)) for target in targets]}"[:2000])

    def _delete(self) -> list[str]:
        """What the broker asks to be deleted. Until it has asked for every copy, and the topic counts as gone."""
        before = len(self._releases())
        admin = AdminClient({"bootstrap.servers": self.stage.broker.bootstrap})
        (deleted,) = admin.delete_topics([self.topic]).values()
        deleted.result(timeout=30)

        def are_all_asked_for() -> bool:
            at = self.stored.start
            for one in sorted({_range(target) for target, _ in self._releases()[before:]}):
                at = one.end if one.start == at else at
            return at == self.stored.end

        eventually(are_all_asked_for, lambda: f"{self._releases()[before:]}, stored {self.stored}")
        asked = self._releases()[before:]
        assert [answered for _, answered in asked] == [204] * len(asked)

        def is_gone() -> bool:
            status = self.status()
            return status is not None and status.since_ms is not None

        eventually(is_gone, lambda: f"{self._gone.report()}")
        return [target for target, _ in asked]

    def _releases(self) -> list[tuple[str, int]]:
        return [one for one in self.stage.releases() if f"/{self.table.topic_id}/" in one[0]]

    def _answer(self, method: str, target: str) -> tuple[int, bytes]:
        connection = HTTPConnection("127.0.0.1", self.stage.port, timeout=30)
        try:
            connection.request(method, target, headers={"Authorization": f"Bearer {TOKEN}"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def _range(target: str) -> OffsetRange:
    asked = parse_qs(urlsplit(target).query)
    return OffsetRange(start=int(asked["start"][0]), end=int(asked["end"][0]))
