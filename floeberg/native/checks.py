"""What native mode would not start for: the broker's own settings, Kafka's metadata topic, the plugin, the door."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.broker import Broker
from engine.errors import Invalid
from floeberg.http.certificate import client_trust
from floeberg.java.plugin_jar import (
    CLASS_NAME,
    CLASS_PATH,
    PLUGIN_CLASS,
    TOKEN,
    TOKEN_FILE_NAME,
    broker_properties,
    packed_jar,
)
from floeberg.native.lines import (
    ENABLE,
    METADATA_TOPIC,
    READ_QUEUE,
    BrokerFacts,
    LineState,
    lines_of,
    notes_of,
)
from floeberg.settings import Settings
from floeberg.setup.check_result import CheckResult, Verdict, good, note

_ALL_LINES = "floeberg plugin prints every line that this broker needs; they count from the broker's next start"
_CANARY = "floeberg check --canary proves a copy and a read"
_DOOR_TIMEOUT_S = 5.0


def native_topics(broker: Broker) -> list[str]:
    """Topics whose history is to be in tiered storage."""
    topics = sorted({found.topic for found in broker.partitions(offsets_of=()) if not found.topic.startswith("__")})
    configs = broker.topic_configs(topics)
    return sorted(topic for topic, config in configs.items() if config.get("remote.storage.enable") == "true")


def check_native(broker: Broker, facts: BrokerFacts, settings: Settings, token: str) -> Iterator[CheckResult]:
    """One result for each thing that is wrong; when nothing is, what is there."""
    topics = native_topics(broker)
    if not topics and facts.value(ENABLE) != "true":
        yield good(
            "plugin",
            "no topic has remote.storage.enable=true: watch mode, the broker's own retention stays as it is (for "
            "native mode run floeberg plugin)",
        )
        return
    metadata_config = broker.topic_configs([METADATA_TOPIC]).get(METADATA_TOPIC, {})
    least_in_sync = int(metadata_config.get("min.insync.replicas", "1"))
    found = [
        *_lines(facts, settings),
        *_jar(facts),
        *metadata_topic(facts, least_in_sync),
        *_other_brokers(broker, facts),
        *door(settings, token),
    ]
    yield from found
    yield from (note("plugin", text) for text in notes_of(facts))
    if not any(result.verdict is Verdict.WRONG for result in found):
        lines = f"broker {facts.node_id} has every line that can be read"
        if topics:
            shown = ", ".join(topics[:5]) + ("…" if len(topics) > 5 else "")
            yield good("plugin", f"{lines}; native mode on {len(topics)} topics ({shown}). {_CANARY}")
        else:
            yield note(
                "plugin",
                f"{lines}; no topic has remote.storage.enable=true: none is in native mode yet. {_CANARY}",
                "kafka-configs.sh --alter --entity-type topics --add-config remote.storage.enable=true",
            )


def _lines(facts: BrokerFacts, settings: Settings) -> Iterator[CheckResult]:
    jar = Path(facts.value(CLASS_PATH, "floeberg-plugin.jar"))
    door = settings.log_door
    # A broker has one of the two, and tells nobody what is in it.
    has_token = any(key.endswith(TOKEN) for key in facts.config.hidden)
    own = broker_properties(
        jar=jar,
        door_url=door.url,
        token="…" if has_token else None,
        token_file=None if has_token else jar.with_name(TOKEN_FILE_NAME),
        ca_file=None if door.tls is None else door.tls.ca_file,
    )
    for line in lines_of(facts, own):
        if line.state is LineState.THERE:
            continue
        if line.key == READ_QUEUE:
            message = f"broker {facts.node_id} queues {facts.value(READ_QUEUE, '100')} reads of history"
            why = f"{line.text} spares consumers UNKNOWN_SERVER_ERROR while a daemon starts again"
            yield note("plugin", message, why)
        elif line.state is LineState.NEEDED:
            yield _wrong("plugin", f"broker {facts.node_id} lacks the line {line.text}", _ALL_LINES)
        elif line.state is LineState.OTHER:
            message = f"broker {facts.node_id} has {line.key}={line.found}, native mode needs {line.text}"
            yield _wrong("plugin", message, _ALL_LINES)


def _jar(facts: BrokerFacts) -> Iterator[CheckResult]:
    """The broker read it at its start: what lies there now counts from the next one."""
    jar = Path(facts.value(CLASS_PATH))
    if facts.value(CLASS_NAME) != PLUGIN_CLASS or not facts.value(CLASS_PATH) or "*" in str(jar):
        return
    try:
        content = jar.read_bytes()
    except OSError as error:
        yield _wrong(
            "plugin",
            f"the jar of {CLASS_PATH}, {jar}, can't be read: {error.strerror}; the broker's next start would fail",
            f"floeberg plugin --output {jar.parent} writes it",
        )
        return
    try:
        differs = content != packed_jar().read_bytes()
    except Invalid:
        return
    if differs:
        yield note(
            "plugin",
            f"{jar} is not the plugin of this version of Floeberg",
            "put the new jar beside it, change the path and restart the broker (docs/runbook.md, upgrade)",
        )


def metadata_topic(facts: BrokerFacts, least_in_sync: int) -> Iterator[CheckResult]:
    """Every copy is recorded there before and after: without it, nothing is ever copied."""
    partitions = facts.metadata_topic
    if facts.value(ENABLE) != "true":
        return
    if partitions is None:
        yield _wrong(
            "metadata topic",
            f"there is no topic {METADATA_TOPIC}: the broker tries to make it for two minutes after its start, and"
            f" can't with more copies than the {facts.broker_count} brokers, or without its listener",
            f"correct what is named above, restart the broker. {_ALL_LINES}",
        )
        return
    name = f"{METADATA_TOPIC} has {len(partitions)} partitions"
    offline = [number for number, one in partitions.items() if one.leader_id < 0]
    short = [number for number, one in partitions.items() if len(one.in_sync) < least_in_sync]
    copies = min(len(one.replicas) for one in partitions.values())
    if offline:
        yield _wrong("metadata topic", f"{name}; {_numbers(offline)} have no leader", "bring their brokers back")
    elif copies < least_in_sync:
        yield _wrong(
            "metadata topic",
            f"{name} of {copies} copies, its min.insync.replicas is {least_in_sync}: it takes no record",
            f"set the topic's min.insync.replicas to {copies}, or give it more replicas",
        )
    elif short:
        message = f"{name}; {_numbers(short)} have fewer copies in sync than min.insync.replicas={least_in_sync}"
        yield _wrong("metadata topic", message, "bring the brokers of its other replicas back")
    elif copies == 1 < facts.broker_count:
        yield note(
            "metadata topic",
            f"{name} of one copy, though there are {facts.broker_count} brokers: who loses that disk does not know any"
            " more what is tiered",
            "give it more replicas with kafka-reassign-partitions.sh",
        )
    else:
        yield good(
            "metadata topic", f"{name} with copies on {copies} of {facts.broker_count} brokers, all with a leader"
        )


def _numbers(partitions: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(partitions)[:5])) + (", …" if len(partitions) > 5 else "")


def _other_brokers(broker: Broker, facts: BrokerFacts) -> Iterator[CheckResult]:
    for node_id in sorted(broker.node_ids() - {facts.node_id}):
        values = broker.broker_config(node_id).values
        if values.get(ENABLE) != "true" or values.get(CLASS_NAME) != PLUGIN_CLASS:
            yield _wrong(
                "plugin",
                f"broker {node_id} has no plugin: partitions that it leads are not copied",
                "run floeberg plugin beside it",
            )


def door(settings: Settings, token: str) -> Iterator[CheckResult]:
    """Whoever listens at the log door's address knows the token that the broker's lines were made with."""
    import httpx

    url = settings.log_door.url
    try:
        answer = httpx.get(
            f"{url}/v1/log/check/0/index/none?start=0&end=1",
            headers={"Authorization": f"Bearer {token}"},
            timeout=_DOOR_TIMEOUT_S,
            verify=client_trust(settings.log_door),
        )
    except httpx.HTTPError as error:
        yield note("log door", f"nothing answers at {url} ({error}): copies wait until the daemon runs", "floeberg run")
        return
    if answer.status_code == httpx.codes.UNAUTHORIZED:
        yield _wrong(
            "log door",
            f"what listens at {url} has another token than this command's settings",
            "run check with the daemon's own settings and user; floeberg plugin writes their token into a file for the"
            " broker",
        )
    elif answer.status_code in {httpx.codes.BAD_REQUEST, httpx.codes.NOT_FOUND, httpx.codes.SERVICE_UNAVAILABLE}:
        yield good("log door", f"a daemon answers at {url}")
    else:
        message = f"what listens at {url} is no log door: it answers {answer.status_code}"
        yield _wrong("log door", message, "end it, or set another [log_door] listen and the broker's floeberg.url")


def _wrong(name: str, message: str, next_step: str) -> CheckResult:
    return CheckResult(name=name, verdict=Verdict.WRONG, message=message, next_step=next_step)
