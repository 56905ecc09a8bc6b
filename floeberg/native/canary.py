"""A canary: a topic of the program's own that the broker copies and gives back, from end to end, and that is then gone.

A daemon of its own, with table and catalog in a temporary folder, stands at the log door meanwhile: the broker's plugin
is tried as it is set up, and nothing of the user's is touched.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from engine.broker import Broker
from engine.clock import Clock
from engine.errors import FloebergError, Unavailable
from engine.kafka_log.segment_reader import read_segment
from engine.offset_range import OffsetRange
from engine.topic_partition import TopicIdPartition
from engine.trial_topic import TrialTopic
from floeberg.daemon.client import ask_daemon
from floeberg.daemon.daemon import Daemon
from floeberg.daemon.door_token import log_door_secrets
from floeberg.http.certificate import client_trust
from floeberg.native.lines import BrokerFacts
from floeberg.processes.free_ports import free_ports
from floeberg.settings import CatalogSettings, Settings, TieringSettings
from floeberg.settings.doors import Listen, TableDoorSettings
from floeberg.settings.topic import TopicSettings
from floeberg.setup.check_result import CheckResult, Verdict, good, note
from topics.partition_status import PartitionStatus

_PREFIX = "__floeberg_canary_"
"""Two underscores: no topic rule of a daemon takes it for one of the user's."""
_RECORDS = 100
_FIRST_SEGMENT = f"{0:020}.log"
_LOOK_AGAIN_MS = 250
_TIERED_WITHIN_MS = 60_000
_REMOVED_WITHIN_MS = 15_000
_READ_WITHIN_MS = 20_000
_DOOR_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bird:
    """What one run of the canary works with. ``settings`` are those of the daemon that runs for it."""

    settings: Settings
    facts: BrokerFacts
    topic: TrialTopic
    clock: Clock
    values: tuple[bytes, ...]
    tell: Callable[[str], None]

    @property
    def end(self) -> int:
        return len(self.values)

    def partition(self) -> PartitionStatus | None:
        status = ask_daemon(self.settings)
        found = (part for part in (status.partitions if status else ()) if part.topic == self.topic.name)
        return next(found, None)

    def answered(self, request: str) -> dict[str, int]:
        """How many requests of a kind the door has answered, by HTTP status."""
        try:
            text = httpx.get(f"{self.settings.table_door.listen.url}/metrics", timeout=_DOOR_TIMEOUT_S).text
        except httpx.HTTPError as error:
            raise Unavailable(f"the canary's daemon does not answer: {error}") from error
        return {
            sample.labels["status"]: int(sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == "floeberg_door_requests_total"
            and (sample.labels["door"], sample.labels["request"]) == ("log", request)
        }

    def within(self, bound_ms: int, holds: Callable[[], bool]) -> bool:
        """Look until it holds; False when it doesn't within ``bound_ms``."""
        deadline_ms = self.clock.monotonic_ms() + bound_ms
        while not holds():
            if self.clock.monotonic_ms() > deadline_ms:
                return False
            self.clock.sleep(_LOOK_AGAIN_MS)
        return True


def fly(
    settings: Settings,
    broker: Broker,
    facts: BrokerFacts,
    clock: Clock,
    *,
    patience_ms: int,
    tell: Callable[[str], None],
) -> Iterator[CheckResult]:
    """What each step came to; ends with the first that failed. ``tell`` is given progress in words.

    ``patience_ms``: how long it may take until the broker has dropped its own copy; afterwards the records are read at
    the door instead of through the broker.
    """
    began_ms = clock.monotonic_ms()
    with tempfile.TemporaryDirectory(prefix="floeberg-canary-") as folder, contextlib.ExitStack() as made:
        name = f"{_PREFIX}{clock.new_id()[:8]}"
        own = _settings(settings, Path(folder), name)
        try:
            made.enter_context(Daemon(own, clock, in_process=True))
        except Unavailable as error:
            yield note(
                "canary",
                f"it did not fly, for its daemon can't stand at the log door: {error.problem}",
                "end the daemon for the minutes that it takes; with a daemon, floeberg status says whether the broker"
                " asks for copies",
            )
            return
        topic = TrialTopic(name, bootstrap=settings.broker.bootstrap, security=settings.broker.security)
        values = tuple(b"canary %d of %s" % (number, name.encode()) for number in range(_RECORDS))
        bird = Bird(settings=own, facts=facts, topic=topic, clock=clock, values=values, tell=tell)
        steps = (_write, _copy)
        try:
            for step in steps:
                yield step(bird)
            yield _read(bird, broker, patience_ms - (clock.monotonic_ms() - began_ms))
        except FloebergError as error:
            yield CheckResult(name="canary", verdict=Verdict.WRONG, message=error.problem, next_step=error.next_step)
        except BaseException:
            # Somebody has no patience with it: nothing of it is to stay all the same.
            with contextlib.suppress(Unavailable):
                topic.delete()
            raise
        yield from _remove(bird)


def _settings(settings: Settings, folder: Path, topic: str) -> Settings:
    """Of the daemon that runs for the canary: the user's log door and broker, everything else in ``folder``. Nothing is
    put into the spool beside the broker's log directories."""
    (port,) = free_ports(1)
    tokens = log_door_secrets(settings)
    return settings.model_copy(
        update={
            "data_dir": folder,
            "namespace": "canary",
            "catalog": CatalogSettings(),
            "log_door": settings.log_door.model_copy(update={"tokens": tokens}),
            "table_door": TableDoorSettings(listen=Listen(host="127.0.0.1", port=port)),
            "tiering": TieringSettings(spool_max_bytes=0, cycle_interval_ms=200),
            "topics": (TopicSettings(name=topic, freshness_ms="closed"),),
        }
    )


def _write(bird: Bird) -> CheckResult:
    bird.tell(f"makes the topic {bird.topic.name} and writes {bird.end} records into a segment that is then closed")
    bird.topic.create(bird.facts.node_id)
    bird.topic.write(bird.values, now_ms=bird.clock.now_ms())

    def is_tiered() -> bool:
        part = bird.partition()
        return part is not None and (part.tiered_end or 0) >= bird.end

    if not bird.within(_TIERED_WITHIN_MS, is_tiered):
        part = bird.partition()
        raise Unavailable(
            f"the segment of {bird.topic.name} did not come into a table within {_TIERED_WITHIN_MS // 1000} s:"
            f" {_state_of(part)}",
            next_step="[broker] log_dirs must be the log directories of the broker at [broker] bootstrap",
        )
    return good("canary write", f"{bird.end} records are in a closed segment and in a table, verified")


def _state_of(part: PartitionStatus | None) -> str:
    if part is None:
        return "it is in none of the log directories"
    return part.problem or part.waiting or "it waits"


def _copy(bird: Bird) -> CheckResult:
    interval_ms = int(bird.facts.value("remote.log.manager.task.interval.ms", "30000"))
    bound_ms = 2 * interval_ms + 30_000
    bird.tell(f"turns tiered storage on for it and waits for the broker to ask, at most {bound_ms // 1000} s")
    began_ms = bird.clock.monotonic_ms()
    bird.topic.keep_history_in_tiered_storage()

    def is_copied() -> bool:
        part = bird.partition()
        return (part is not None and (part.copied_end or 0) >= bird.end) or "401" in bird.answered("copy")

    bird.within(bound_ms, is_copied)
    part = bird.partition()
    if part is None or (part.copied_end or 0) < bird.end:
        raise _not_copied(bird, bound_ms)
    seconds = (bird.clock.monotonic_ms() - began_ms) / 1000
    return good("canary copy", f"the broker asked for the copy and was told that it is safe, after {seconds:.0f} s")


def _not_copied(bird: Bird, bound_ms: int) -> Unavailable:
    url = bird.settings.log_door.url
    if "401" in bird.answered("copy"):
        return Unavailable(
            f"the broker asked at {url} with another token than this program's",
            next_step="floeberg plugin writes the file with the right one, for floeberg.token.file in the broker's"
            " server.properties",
        )
    return Unavailable(
        f"the broker asked nothing at {url} for {bound_ms // 1000} s though a closed segment waits",
        next_step="floeberg.url in the broker's server.properties must be that address; else see what its log says of"
        " RemoteLogManager and TopicBasedRemoteLogMetadataManager. Its settings count from its last start",
    )


def _read(bird: Bird, broker: Broker, left_ms: int) -> CheckResult:
    interval_ms = int(bird.facts.value("log.retention.check.interval.ms", "300000"))
    bird.tell(
        f"waits until the broker has dropped its own copy, at most {max(0, left_ms) // 1000} s"
        f" (it looks every {interval_ms // 1000} s)"
    )
    if not bird.within(left_ms, lambda: _is_dropped(bird)):
        _compare(_read_at_the_door(bird, broker), bird)
        return note(
            "canary read",
            f"all {bird.end} records are served at the log door as they were written. No consumer needed it yet: the"
            f" broker has a copy of its own still, which it looks at every {interval_ms // 1000} s",
            f"--patience {interval_ms // 1000 + 90} waits for a consumer's read from tiered storage",
        )
    before = bird.answered("records").get("200", 0)
    _compare(bird.topic.read(bird.end, timeout_ms=_READ_WITHIN_MS), bird)
    if bird.answered("records").get("200", 0) == before:
        raise Unavailable("a consumer got the records, but the broker did not ask the log door for them")
    return good(
        "canary read",
        f"the broker dropped its own copy, and a consumer read all {bird.end} records through it from the table",
    )


def _is_dropped(bird: Bird) -> bool:
    """The broker names a segment that it drops ``….deleted``; whoever moved the partition away drops nothing."""
    folders = [log_dir / f"{bird.topic.name}-0" for log_dir in bird.settings.broker.log_dirs]
    return any(folder.is_dir() and not (folder / _FIRST_SEGMENT).exists() for folder in folders)


def _read_at_the_door(bird: Bird, broker: Broker) -> list[bytes | None]:
    """As the plugin does."""
    (who,) = broker.partitions([bird.topic.name], offsets_of=())
    log_door = bird.settings.log_door
    url = f"{log_door.url}/v1/log/{who.topic_id}/0/records"
    whole = OffsetRange(start=0, end=bird.end)
    asked = {"start": whole.start, "end": whole.end, "from": whole.start}
    try:
        answer = httpx.get(
            url,
            params=asked,
            headers={"Authorization": f"Bearer {log_door.known_tokens[0]}"},
            timeout=_DOOR_TIMEOUT_S,
            verify=client_trust(log_door),
        )
        answer.raise_for_status()
    except httpx.HTTPError as error:
        raise Unavailable(f"the log door does not give the canary's records: {error}") from error
    path = bird.settings.data_dir / _FIRST_SEGMENT
    path.write_bytes(answer.content)
    return _values(path, who, whole)


def _values(path: Path, who: TopicIdPartition, whole: OffsetRange) -> list[bytes | None]:
    blocks = read_segment(path, partition=who, offsets=whole, aborted=())
    return [value for block in blocks for value in block.value.to_list()]


def _compare(found: list[bytes | None], bird: Bird) -> None:
    if found != list(bird.values):
        raise Unavailable(
            f"the canary's records came back other than they were written: {len(found)} of {bird.end}",
            next_step="please report it, with the versions of Kafka and Floeberg",
        )


def _remove(bird: Bird) -> Iterator[CheckResult]:
    """Take the topic away while the door still stands: the broker tells it when it has let go of the copy."""
    bird.tell(f"deletes {bird.topic.name}")
    try:
        bird.topic.delete()
    except Unavailable as error:
        yield CheckResult(
            name="canary",
            verdict=Verdict.WRONG,
            message=f"it is left behind: {error.problem}",
            next_step=f"delete the topic {bird.topic.name}",
        )
        return
    copied = bird.answered("copy").get("200", 0) > 0
    bird.within(_REMOVED_WITHIN_MS, lambda: not copied or bird.answered("release").get("204", 0) > 0)
