"""The server under silent, slow and too many clients, met as they are: by their sockets."""

from __future__ import annotations

import asyncio
import itertools
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import httpx
import pytest
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from floeberg.http import server as http_server
from floeberg.http.connection import ConnectionLimits
from floeberg.http.server import HttpServer
from floeberg.processes.free_ports import free_ports
from floeberg.settings.doors import Listen
from serving.door import client_is_gone

SOON, NEVER = 0.2, 600.0
WAIT_S = 30
QUIET = b"GET /here HTTP/1.1\r\nHost: x\r\n\r\n"


class Endless(Response):
    """An answer that doesn't end; it tells when its client is gone."""

    def __init__(self) -> None:
        super().__init__()
        del self.headers["content-length"]
        self.gone = threading.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # ASGI's signature
        gone = asyncio.ensure_future(client_is_gone(receive))
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        while not gone.done():
            await send({"type": "http.response.body", "body": b"x" * (1 << 18), "more_body": True})
            await asyncio.sleep(0)
        self.gone.set()


@contextmanager
def serving(limits: ConnectionLimits, *routes: Route) -> Iterator[tuple[str, int]]:
    here = Route("/here", lambda _request: PlainTextResponse("here"))
    with HttpServer([here, *routes], Listen(host="127.0.0.1", port=0), setting="[x] listen", limits=limits) as server:
        yield server.listen.host, server.listen.port


def connected(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, timeout=WAIT_S)


def is_ended(client: socket.socket) -> bool:
    """Waits for what comes: the connection's end, or a byte."""
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("sent", [b"", b"GET /he", b"GET /here HTTP/1.1\r\nHost: x\r\n", QUIET], ids=len)
def test_connection_that_asks_for_nothing_more_is_ended(sent: bytes) -> None:
    with serving(ConnectionLimits(idle_seconds=SOON)) as address, connected(address) as client:
        client.sendall(sent)
        if sent == QUIET:
            answer = b""
            while not answer.endswith(b"here"):
                answer += client.recv(1 << 16)
        assert is_ended(client)


def test_head_that_comes_byte_by_byte_has_no_more_time_than_another() -> None:
    with serving(ConnectionLimits(idle_seconds=SOON)) as address, connected(address) as client:
        client.settimeout(SOON / 20)
        for byte in itertools.cycle(b"GET /" + b"e" * 500):
            try:
                client.sendall(bytes([byte]))
                assert client.recv(1) == b""
                break
            except TimeoutError:
                continue
            except ConnectionError:
                break


def test_silent_connections_above_the_bound_make_room_for_the_next() -> None:
    limits = ConnectionLimits(connections=4, idle_seconds=NEVER)
    with serving(limits) as address, ExitStack() as clients:
        silent = [clients.enter_context(connected(address)) for _ in range(20)]
        assert httpx.get(f"http://127.0.0.1:{address[1]}/here", timeout=WAIT_S).text == "here"
        assert all(is_ended(client) for client in silent[:16])


def test_connection_that_is_being_answered_makes_no_room() -> None:
    endless = Endless()
    limits = ConnectionLimits(connections=1, idle_seconds=NEVER, stall_seconds=NEVER)
    with serving(limits, Route("/endless", lambda _: endless)) as address, connected(address) as client:
        client.sendall(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.recv(1) == b"H"
        with connected(address) as another:
            assert is_ended(another)
        assert client.recv(1) == b"T"
        assert not endless.gone.is_set()


def test_client_that_takes_nothing_of_its_answer_is_hung_up_on() -> None:
    endless = Endless()
    limits = ConnectionLimits(idle_seconds=NEVER, stall_seconds=SOON)
    with serving(limits, Route("/endless", lambda _: endless)) as address, connected(address) as client:
        client.sendall(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        assert endless.gone.wait(WAIT_S)


def test_nobody_is_let_in_before_it_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()
    run: Callable[..., None] = http_server._Server.run

    def late(self: http_server._Server, sockets: list[socket.socket]) -> None:
        begun.set()
        assert go_on.wait(WAIT_S)
        run(self, sockets)

    monkeypatch.setattr(http_server._Server, "run", late)
    (port,) = free_ports(1)
    listen = Listen(host="127.0.0.1", port=port)
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(HttpServer, [Route("/", lambda _: PlainTextResponse("here"))], listen, setting="[x]")
        assert begun.wait(WAIT_S)
        with pytest.raises(ConnectionRefusedError):
            connected((listen.host, listen.port))
        go_on.set()
        with starting.result(WAIT_S) as server:
            assert httpx.get(server.url).text == "here"


def test_server_without_handles_says_so_once_and_in_readyz() -> None:
    program = [sys.executable, "-m", "tests.floeberg.few_handles_server"]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        try:
            url = child.stdout.readline().strip()
            port = int(url.rpartition(":")[2])
            with ExitStack() as clients:
                for _ in range(20):
                    clients.enter_context(connected(("127.0.0.1", port)))
                # Whoever is silent makes room, one a second: the answer comes once it is this one's turn.
                answer = httpx.get(f"{url}/readyz", timeout=4 * WAIT_S)
            assert answer.status_code == 503
            assert "file handles" in answer.text
        finally:
            _, told = child.communicate("", timeout=WAIT_S)
    assert "Too many open files" in told
    assert told.count("connections_not_accepted") <= 3, told
    assert len(told) < 5_000, told
