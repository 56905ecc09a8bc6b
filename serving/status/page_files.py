"""The page's files: read once, named by what is in them, sent compressed."""

from __future__ import annotations

import gzip
import hashlib
import re
from dataclasses import dataclass
from importlib import resources

from starlette.requests import Request
from starlette.responses import Response

FOLDER = resources.files("serving.status") / "static"

CONTENT_TYPES = {
    "page.js": "text/javascript; charset=utf-8",
    "nodes.js": "text/javascript; charset=utf-8",
    "partitions.js": "text/javascript; charset=utf-8",
    "words.js": "text/javascript; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "uPlot.iife.min.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}

FOR_EVER = "public, max-age=31536000, immutable"
"""Of a file whose address names its content."""

POLICY = "default-src 'none'; " + "; ".join(
    (
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)

SAFE_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}

_SMALL_BYTES = 500
"""What is smaller gains nothing by compression."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFile:
    content: bytes
    compressed: bytes
    content_type: str
    digest: str

    @classmethod
    def read(cls, name: str) -> PageFile:
        content = _lean(name, (FOLDER / name).read_text()).encode()
        return cls(
            content=content,
            compressed=gzip.compress(content, mtime=0),
            content_type=CONTENT_TYPES[name],
            digest=hashlib.sha256(content).hexdigest()[:12],
        )

    def answer(self, request: Request) -> Response:
        tag = f'"{self.digest}"'
        # An address without the right digest is of another version of the page: it is answered, and not kept.
        is_named = request.query_params.get("v") == self.digest
        headers = {"ETag": tag, "Cache-Control": FOR_EVER if is_named else "no-cache", **SAFE_HEADERS}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return packed(request, self.content, self.content_type, headers, compressed=self.compressed)


class PageFiles:
    """All of them, and the template that names them."""

    def __init__(self) -> None:
        self.files = {name: PageFile.read(name) for name in CONTENT_TYPES}
        self.template = (FOLDER / "index.html").read_text()
        self.addresses = {
            name.split(".")[0].lower() + "_" + name.rsplit(".", 1)[1]: f"page/{name}?v={file.digest}"
            for name, file in self.files.items()
        }


def _lean(name: str, text: str) -> str:
    """Without comments and the white space that only people need. uPlot's files are so already."""
    if name == "page.css":
        return re.sub(r"/\*.*?\*/|\s*([{};,])\s*|(?<=:) ", r"\1", text)
    if name.endswith(".js") and not name.startswith("uPlot"):
        lines = (line.strip() for line in text.splitlines())
        return "\n".join(line for line in lines if line and not line.startswith("//"))
    return text


def packed(
    request: Request,
    content: bytes,
    content_type: str,
    headers: dict[str, str] | None = None,
    *,
    compressed: bytes | None = None,
) -> Response:
    """An answer, compressed where the client takes that and it gains something."""
    headers = {"Vary": "Accept-Encoding", **(headers or {})}
    if len(content) >= _SMALL_BYTES and "gzip" in request.headers.get("accept-encoding", ""):
        content = gzip.compress(content, 5, mtime=0) if compressed is None else compressed
        headers["Content-Encoding"] = "gzip"
    return Response(content, media_type=content_type, headers=headers)
