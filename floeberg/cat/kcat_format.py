"""kcat's format strings: how a record is printed, token by token (``kcat -h``, "Format string tokens").

``%s`` value, ``%S`` its length (-1 for null), ``%R`` the same as 32 bits big-endian; ``%k`` key, ``%K`` its length;
``%T`` timestamp in milliseconds; ``%h`` headers as ``name=value,…``; ``%t`` topic, ``%p`` partition, ``%o`` offset;
``%%``; and the escapes ``\\n``, ``\\r``, ``\\t``, ``\\\\``, ``\\xHH``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from engine.errors import Invalid

if TYPE_CHECKING:
    from engine.records.records import ByteSpans, Records

Part = Callable[[str, int, "Records", int], bytes]
"""(topic, partition, records, row) -> what the row's record has there."""

_TOKENS: Mapping[str, Part] = {
    "s": lambda _topic, _partition, records, row: records.value[row] or b"",
    "S": lambda _topic, _partition, records, row: _number(records.value.length[row]),
    "R": lambda _topic, _partition, records, row: _length(records.value, row),
    "k": lambda _topic, _partition, records, row: records.key[row] or b"",
    "K": lambda _topic, _partition, records, row: _number(records.key.length[row]),
    "T": lambda _topic, _partition, records, row: _number(records.timestamp_ms[row]),
    "h": lambda _topic, _partition, records, row: _headers(records, row),
    "t": lambda topic, _partition, _records, _row: topic.encode(),
    "p": lambda _topic, partition, _records, _row: _number(partition),
    "o": lambda _topic, _partition, records, row: _number(records.offset[row]),
}
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\"}
_PIECE = re.compile(r"%(?P<token>.)|\\(?:x(?P<hex>[0-9A-Fa-f]{2})|(?P<escape>[nrt\\]))|(?P<text>[^%\\]+|\\)", re.DOTALL)


def parse_format(text: str) -> tuple[bytes | Part, ...]:
    """The pieces of a format string. Raises Invalid for a token that there is not."""
    pieces: list[bytes | Part] = []
    at = 0
    while at < len(text):
        found = _PIECE.match(text, at)
        if found is None or (found["token"] is not None and found["token"] not in {*_TOKENS, "%"}):
            known = " ".join(f"%{token}" for token in _TOKENS)
            raise Invalid(f"The format has no token {text[at : at + 2]!r}", next_step=f"there are {known} and %%")
        at = found.end()
        if found["hex"] is not None:
            pieces.append(bytes.fromhex(found["hex"]))
        elif found["escape"] is not None:
            pieces.append(_ESCAPES[found["escape"]])
        elif found["text"] is not None:
            pieces.append(found["text"].encode())
        else:
            token = text[at - 1]
            pieces.append(b"%" if token == "%" else _TOKENS[token])
    return tuple(pieces)


def formatted(pieces: tuple[bytes | Part, ...], topic: str, partition: int, records: Records, row: int) -> bytes:
    return b"".join(piece if isinstance(piece, bytes) else piece(topic, partition, records, row) for piece in pieces)


def _number(value: object) -> bytes:
    return str(value).encode()


def _length(spans: ByteSpans, row: int) -> bytes:
    return int(spans.length[row]).to_bytes(4, "big", signed=True)


def _headers(records: Records, row: int) -> bytes:
    pairs = [] if records.headers is None else records.headers.of_record(row)
    return b",".join(name + b"=" + (b"NULL" if value is None else value) for name, value in pairs)
