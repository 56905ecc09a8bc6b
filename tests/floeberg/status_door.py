"""A table door that gives out one status, without a daemon."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from serving.status.daemon_status import DaemonStatus


@contextmanager
def status_door(folder: Path, status: DaemonStatus) -> Iterator[list[str]]:
    """``folder`` gets a settings file that names the door; yields the paths that were asked for."""
    asked: list[str] = []
    content = json.dumps(status.to_dict()).encode()

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments: object) -> None:
            """Not on the test's output."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as door:
        Thread(target=door.serve_forever, daemon=True).start()
        (folder / "floeberg.toml").write_text(
            f'[broker]\nbootstrap = "127.0.0.1:1"\nlog_dirs = ["{folder}"]\n'
            f'[table_door]\nlisten = "127.0.0.1:{door.server_port}"\n'
        )
        yield asked
        door.shutdown()
