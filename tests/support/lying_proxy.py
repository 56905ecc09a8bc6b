"""An HTTP proxy before a real REST catalog that answers commits wrongly on demand; everything else passes."""

from __future__ import annotations

import contextlib
import http.client
import re
import threading
from collections import deque
from dataclasses import dataclass
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import urlparse

_COMMIT = re.compile(r"^/v1/namespaces/[^/]+/tables/[^/]+$")
_SERVER_TIMEOUT_SECONDS = 60.0
"""How long the proxy waits for the catalog, and for a client to lose its patience."""

_GARBAGE = b"<html><body>Welcome to the hotel's network</body></html>"


class Answer(Enum):
    """What a commit is answered with, besides a status."""

    TRUTH = "truth"  # what the catalog said, the last time it was asked
    SILENCE = "silence"  # nothing, until the client hangs up
    DROP = "drop"  # the connection ends
    GARBAGE = "garbage"  # 200 and a page that is not the catalog's


@dataclass(frozen=True, slots=True, kw_only=True)
class Lie:
    """What becomes of one commit: how often the catalog gets it, and what its client gets.

    ``forwarded_late``: the catalog gets it only when the next commit comes, before that one.
    """

    answer: Answer | int
    forwarded: int = 0
    forwarded_late: bool = False

    def __str__(self) -> str:
        told = f"{self.answer}" if isinstance(self.answer, int) else self.answer.value
        if self.forwarded_late:
            return f"{told}-lands-late"
        return f"{told}-{('lost', 'landed', 'landed-twice')[self.forwarded]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reply:
    status: int
    content_type: str
    body: bytes


class LyingProxy:
    """On a free port of the loopback; a context manager. Without ``lies`` it tells the truth.

    ``lies`` are used up one a commit; behind the last of them ``always`` holds. ``whole``: every request is
    answered so, whatever it asks. ``commits`` counts the commits that clients sent.
    """

    def __init__(self, target: str) -> None:
        self.lies: deque[Lie] = deque()
        self.always: Lie | None = None
        self.whole: Answer | None = None
        self.commits = 0
        self._target = urlparse(target)
        self._late: list[tuple[str, str, bytes]] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                proxy._serve(self)

            do_POST = do_HEAD = do_DELETE = do_GET  # noqa: N815 - names of http.server

            def log_message(self, *_: object) -> None:
                """The tests look at what came of it."""

        return Handler

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        asked = (request.command, request.path, body)
        lie = self._lie_for(request) if self.whole is None else Lie(answer=self.whole)
        if lie is None:
            _send(request, self._forward(*asked))
            return
        reply = _Reply(status=200, content_type="text/html", body=_GARBAGE)
        for _ in range(lie.forwarded):
            truth = self._forward(*asked)
            reply = truth if lie.answer is Answer.TRUTH else reply
        if lie.forwarded_late:
            self._late.append(asked)
        if isinstance(lie.answer, int):
            message = b'{"error":{"message":"planted","type":"Planted","code":%d}}' % lie.answer
            reply = _Reply(status=lie.answer, content_type="application/json", body=message)
        if lie.answer is Answer.SILENCE:
            request.connection.settimeout(_SERVER_TIMEOUT_SECONDS)
            request.connection.recv(1)
        if lie.answer in {Answer.SILENCE, Answer.DROP}:
            request.close_connection = True
            return
        _send(request, reply)

    def _lie_for(self, request: BaseHTTPRequestHandler) -> Lie | None:
        if request.command != "POST" or not _COMMIT.match(request.path):
            return None
        with self._lock:
            self.commits += 1
            late, self._late = self._late, []
            for asked in late:
                self._forward(*asked)
            return self.lies.popleft() if self.lies else self.always

    def _forward(self, method: str, path: str, body: bytes) -> _Reply:
        connection = http.client.HTTPConnection(
            self._target.hostname or "", self._target.port, timeout=_SERVER_TIMEOUT_SECONDS
        )
        try:
            connection.request(method, path, body or None, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            content_type = answer.headers.get("Content-Type", "application/json")
            return _Reply(status=answer.status, content_type=content_type, body=answer.read())
        finally:
            connection.close()


def _send(request: BaseHTTPRequestHandler, reply: _Reply) -> None:
    with contextlib.suppress(ConnectionError):  # the client has lost its patience
        request.send_response(reply.status)
        request.send_header("Content-Type", reply.content_type)
        request.send_header("Content-Length", str(len(reply.body)))
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(reply.body)


LIES = (
    *(Lie(answer=answer, forwarded=times) for answer in (409, 500, 502, 503, 504, 404) for times in (0, 1)),
    *(Lie(answer=answer, forwarded=times) for answer in (Answer.SILENCE, Answer.DROP) for times in (0, 1)),
    *(Lie(answer=Answer.GARBAGE, forwarded=times) for times in (0, 1)),
    *(Lie(answer=answer, forwarded=2) for answer in (Answer.TRUTH, Answer.DROP, 504)),
    *(Lie(answer=answer, forwarded_late=True) for answer in (Answer.SILENCE, 504)),
)
"""Every lie that a writer overcomes by itself."""
