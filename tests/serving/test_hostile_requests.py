"""Both doors under requests that nobody should send: answered as the client's mistake, or refused, never by a trace."""

from __future__ import annotations

import logging
import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from engine.table.catalog.access import embedded_catalog_properties, open_catalog
from floeberg.http.connection import ConnectionLimits
from floeberg.http.server import HttpServer
from floeberg.settings.doors import Listen
from serving.log.commit_signal import CommitSignal
from serving.log.door import LogDoorLimits, create_log_door
from serving.tables.catalog_view import CatalogView
from serving.tables.door import table_door_routes
from tests.serving.log.backend_suite import END, sample_records
from tests.serving.log.kept_log import TOPIC_ID, KeptLog

TOKEN = "open-sesame"
REQUESTS = 1_500
WAIT_S = 30.0
NUMBERS = ("0", "1", "-1", "9" * 5_000, "1e9", "٣", "%00", "", "0x10", str(2**31), str(2**63), "%1F", "%FF%FE")
NAMES = (
    TOPIC_ID,
    "kafka",
    "orders",
    "%1F",
    "%1Fkafka",
    "kafka%1F",
    "%00",
    "..",
    "%2e%2e%2f",
    "%F0%9F%92%A9",
    "a" * 3_000,
)
NAMES += ("kafka%1Forders", "%22%3B--", "%0d%0aX: y", "[", "%25", "*", "None", "%ED%A0%80")
WORDS = (
    "v1",
    "log",
    "copy",
    "records",
    "index",
    "offset",
    "namespaces",
    "tables",
    "config",
    "timestamp",
    "leader-epoch",
)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")
HOSTS = ("x", "[", "[::1", "x:y", "", "a b", "x" * 2_000, "%00", "localhost:0")
HEADERS = (
    "Content-Length: 3",
    "Content-Length: -1",
    "Content-Length: 99999999999999999999999999",
    "Transfer-Encoding: chunked",
    "If-None-Match: *",
    "Expect: 100-continue",
    "Connection: close",
    "Connection: upgrade\r\nUpgrade: websocket",
    "Range: bytes=0-",
    "Authorization: Bearer",
    "Authorization: \xff\xfe",
    "X: " + "y" * 5_000,
)
LOG_SHAPES = ("/v1/log/{name}/{number}/records?start={number}&end={number}&from={number}&max_bytes={number}",)
LOG_SHAPES += (
    "/v1/log/{name}/{number}/copy?start={number}&end={number}&wait_ms={number}",
    "/v1/log/{name}/{number}?start=0",
)
LOG_SHAPES += ("/v1/log/{name}/{number}/index/{name}?start={number}&end=10",)
TABLE_SHAPES = ("/v1/namespaces/{name}/tables/{name}", "/v1/namespaces/{name}", "/v1/namespaces?parent={name}")
TABLE_SHAPES += ("/v1/namespaces/{name}/tables?{number}={name}", "/v1/config?warehouse={name}")


def path_of(chance: random.Random) -> str:
    if chance.random() < 0.2:
        return "/" + "/".join(chance.choice((*WORDS, *NAMES, *NUMBERS)) for _ in range(chance.randrange(7)))
    shape = chance.choice((*LOG_SHAPES, *TABLE_SHAPES))
    while "{name}" in shape:
        shape = shape.replace("{name}", chance.choice(NAMES), 1)
    while "{number}" in shape:
        shape = shape.replace("{number}", chance.choice(NUMBERS), 1)
    return shape


def request_of(chance: random.Random, *, token: bool) -> bytes:
    lines = [f"{chance.choice(METHODS)} {path_of(chance)} HTTP/1.1", f"Host: {chance.choice(HOSTS)}"]
    lines += chance.sample(HEADERS, chance.randrange(3))
    if token:
        lines.append(f"Authorization: Bearer {TOKEN}")
    body = chance.choice((b"", b"", b"FLAX", chance.randbytes(40), b"5\r\nhello\r\n0\r\n\r\n"))
    whole = "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body
    if chance.random() < 0.1:
        at = chance.randrange(len(whole))
        whole = whole[:at] + chance.randbytes(chance.randrange(9)) + whole[at + 3 :]
    return whole


def status_of(address: tuple[str, int], request: bytes) -> int | None:
    """Of the answer; None where the connection is ended without."""
    with socket.create_connection(address, timeout=WAIT_S) as client:
        try:
            client.sendall(request)
            answer = client.recv(1 << 12)
        except ConnectionError:
            return None
    return int(answer.split()[1]) if answer else None


@pytest.fixture
def addresses(tmp_path: Path) -> Iterator[list[tuple[str, int]]]:
    log = KeptLog(sample_records())
    log.committed = END
    catalog = CatalogView(open_catalog(embedded_catalog_properties(tmp_path)))
    listen = Listen(host="127.0.0.1", port=0)
    # What is only begun is not waited for long.
    soon = ConnectionLimits(idle_seconds=0.1)
    limits = LogDoorLimits(copy_body_timeout_ms=100)
    log_routes = create_log_door(log, tokens=[TOKEN], commits=CommitSignal(), limits=limits)
    with (
        HttpServer(log_routes, listen, setting="[x]", limits=soon) as log_door,
        HttpServer(table_door_routes(catalog), listen, setting="[x]", limits=soon) as table_door,
        HttpServer(table_door_routes(catalog, tokens=[TOKEN]), listen, setting="[x]", limits=soon) as closed_door,
    ):
        yield [(door.listen.host, door.listen.port) for door in (log_door, table_door, closed_door)]


@pytest.mark.parametrize("seed", range(2))
def test_hostile_requests_meet_no_error_of_ours(
    addresses: list[tuple[str, int]], caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    chance = random.Random(seed)
    with capture_logs() as ours, caplog.at_level(logging.WARNING):
        for _ in range(REQUESTS):
            request = request_of(chance, token=chance.random() < 0.7)
            status = status_of(chance.choice(addresses), request)
            assert status is None or status < 500 or status == 503, (status, request)
    assert not [line for line in ours if line["log_level"] in {"error", "critical"}]
    assert not [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR]


@pytest.mark.parametrize(
    "path",
    [
        f"/v1/log/{TOPIC_ID}/{'9' * 5_000}/records?start=0&end=10",
        f"/v1/log/{TOPIC_ID}/x/copy",
        f"/v1/log/{'a' * 100}/0/index/nonsense",
        "/v1/log/anything/else",
        "/v1/log/",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
def test_log_door_asks_for_the_token_before_it_reads_a_request(
    addresses: list[tuple[str, int]], method: str, path: str
) -> None:
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\n"
    assert status_of(addresses[0], f"{head}\r\n".encode()) == 401
    assert status_of(addresses[0], f"{head}Authorization: Bearer {TOKEN}\r\n\r\n".encode()) in {400, 404}


@pytest.mark.parametrize("path", ["/v1/namespaces/%1F", "/v1/namespaces/%1F/tables", "/v1/namespaces?parent=%1F"])
def test_namespace_that_can_be_none_is_not_found_by_who_has_the_token(
    addresses: list[tuple[str, int]], path: str
) -> None:
    head = f"GET {path} HTTP/1.1\r\nHost: x\r\n"
    _, opened, closed = addresses
    assert status_of(opened, f"{head}\r\n".encode()) == 404
    assert status_of(closed, f"{head}\r\n".encode()) == 401
    assert status_of(closed, f"{head}Authorization: Bearer {TOKEN}\r\n\r\n".encode()) == 404
