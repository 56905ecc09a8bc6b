"""A small schema registry that speaks Confluent's API over HTTP, in this process: for faults a real one won't show."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


class RegistryServer:
    """``schemas`` by id and ``versions`` by (subject, version), each the answer's JSON object.

    ``credentials`` is the Authorization header that is asked for; ``faults`` are answers, (status, body), given once
    each before anything else; ``requests`` are the paths asked for. While ``silent`` is set no answer is given, while
    ``dripping`` is set each comes a byte at a time; both end with the server.
    """

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.versions: dict[tuple[str, int], dict[str, Any]] = {}
        self.credentials: str | None = None
        self.faults: list[tuple[int, bytes]] = []
        self.requests: list[str] = []
        self.silent = threading.Event()
        self.dripping = threading.Event()
        self.closed = threading.Event()
        self.url = ""

    def ask_for_basic(self, user: str, password: str) -> None:
        self.credentials = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

    def register(self, subject: str, schema_id: int, text: str, **more: Any) -> None:
        """The next version of a subject."""
        version = max((known for name, known in self.versions if name == subject), default=0) + 1
        self.schemas[schema_id] = {"schema": text, **more}
        self.versions[subject, version] = {
            "subject": subject,
            "version": version,
            "id": schema_id,
            "schema": text,
            **more,
        }

    def answer(self, path: str, credentials: str | None) -> tuple[int, bytes]:
        self.requests.append(path)
        if self.faults:
            return self.faults.pop(0)
        if self.credentials not in (None, credentials):
            return 401, b'{"error_code": 401, "message": "Unauthorized"}'
        parts = [unquote(part) for part in urlsplit(path).path.removeprefix("/api").split("/")[1:]]
        found: Any = None
        code = 40401
        if parts == ["subjects"]:
            found = sorted({subject for subject, _ in self.versions})
        elif parts[:2] == ["schemas", "ids"]:
            found, code = self.schemas.get(int(parts[2])), 40403
        else:
            known = {version: answer for (subject, version), answer in self.versions.items() if subject == parts[1]}
            if known and len(parts) == 3:
                found = sorted(known)
            elif known:
                found, code = known.get(max(known) if parts[3] == "latest" else int(parts[3])), 40402
        if found is None:
            return 404, json.dumps({"error_code": code, "message": "Schema not found"}).encode()
        return 200, json.dumps(found).encode()


@contextmanager
def running_registry(tls: ssl.SSLContext | None = None) -> Iterator[RegistryServer]:
    """A registry on a free port; with ``tls`` behind that context."""
    registry = RegistryServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            while registry.silent.is_set() and not registry.closed.wait(0.01):
                """Nothing is said."""
            status, body = registry.answer(self.path, self.headers.get("Authorization"))
            head = f"HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            answer = head.encode() + body
            try:
                if registry.dripping.is_set():
                    for byte in answer:
                        self.wfile.write(bytes([byte]))
                        if registry.closed.wait(0.02):
                            return
                else:
                    self.wfile.write(answer)
            except OSError:
                """Who asked has gone."""

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it
            """Tests look at ``requests``."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A handshake that fails is what some tests are about."""

    server = Server(("127.0.0.1", 0), Handler)
    scheme = "http"
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        scheme = "https"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    registry.url = f"{scheme}://127.0.0.1:{server.server_address[1]}/api"
    try:
        yield registry
    finally:
        registry.closed.set()
        server.shutdown()
        server.server_close()
        thread.join()
