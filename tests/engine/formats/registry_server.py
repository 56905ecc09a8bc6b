"""A small schema registry that speaks Confluent's API over HTTP, in this process, for tests."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote


class RegistryServer:
    """``schemas`` by id and ``versions`` by (subject, version), each the answer's JSON object.

    ``credentials`` is the Authorization header that is asked for; ``faults`` are answers, (status, body), given once
    each before anything else; ``requests`` are the paths asked for.
    """

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.versions: dict[tuple[str, int], dict[str, Any]] = {}
        self.credentials: str | None = None
        self.faults: list[tuple[int, bytes]] = []
        self.requests: list[str] = []
        self.url = ""

    def ask_for_basic(self, user: str, password: str) -> None:
        self.credentials = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

    def answer(self, path: str, credentials: str | None) -> tuple[int, bytes]:
        self.requests.append(path)
        if self.faults:
            return self.faults.pop(0)
        if self.credentials not in (None, credentials):
            return 401, b'{"error_code": 401, "message": "Unauthorized"}'
        parts = [unquote(part) for part in path.removeprefix("/api").split("/")[1:]]
        found, code = None, 404
        if parts[:2] == ["schemas", "ids"]:
            found, code = self.schemas.get(int(parts[2])), 40403
        elif parts[0] == "subjects" and parts[2] == "versions":
            found, code = self.versions.get((parts[1], int(parts[3]))), 40402
        if found is None:
            return 404, json.dumps({"error_code": code, "message": "Schema not found"}).encode()
        return 200, json.dumps(found).encode()


@contextmanager
def running_registry() -> Iterator[RegistryServer]:
    registry = RegistryServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, body = registry.answer(self.path, self.headers.get("Authorization"))
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it
            """Tests look at ``requests``."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_address[1]}/api"
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
