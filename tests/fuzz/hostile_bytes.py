"""Real values made hostile: flipped, cut, stretched, spliced with each other and with what breaks decoders."""

from __future__ import annotations

import random
from collections.abc import Sequence

PIECES = (
    b"",
    b"\0" * 9,
    b"\xff" * 9 + b"\x01",  # the largest varint
    b"\xff" * 12,  # a varint that does not end
    b"\xfe\xff\xff\xff\x0f",  # a length of 2 GiB, zigzag
    b"\xff\xff\xff\xff\x07",  # a length of 2 GiB
    b"\x0b" * 40,  # groups in groups
    b"\x80" * 30,
    b"\x7f\xf0\0\0\0\0\0\x01",  # a signalling NaN
    b"\xed\xa0\x80",  # half a surrogate pair
    b"\xc0\x80",
    b"\xf4\x90\x80\x80",
    b"[" * 70,
    b'{"a":' * 70,
    b"1e400",
    b"-0.0",
    b"123456789012345678901234567890",
    b"9999-12-31T23:59:59.999999Z",
    b'"\\ud800"',
    b'\\u0000"',
    b'""",""',
    b"\r\n",
    b"NaN",
)
_MOST_BYTES = 1 << 16


def hostile(chance: random.Random, values: Sequence[bytes]) -> bytes:
    """One of ``values`` with one to four damages, never longer than 64 KiB."""
    value = chance.choice(values)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        value = chance.choice(_DAMAGES)(chance, value, values)
    return value[:_MOST_BYTES]


def _flip(chance: random.Random, value: bytes, _: Sequence[bytes]) -> bytes:
    at = chance.randrange(len(value) + 1)
    return value[:at] + bytes([value[at] ^ 1 << chance.randrange(8)]) + value[at + 1 :] if at < len(value) else value


def _overwrite(chance: random.Random, value: bytes, _: Sequence[bytes]) -> bytes:
    at = chance.randrange(len(value) + 1)
    return value[:at] + chance.randbytes(chance.randrange(1, 5)) + value[at + chance.randrange(5) :]


def _cut(chance: random.Random, value: bytes, _: Sequence[bytes]) -> bytes:
    return value[: chance.randrange(len(value) + 1)]


def _insert(chance: random.Random, value: bytes, _: Sequence[bytes]) -> bytes:
    at = chance.randrange(len(value) + 1)
    return value[:at] + chance.choice(PIECES) + value[at:]


def _repeat(chance: random.Random, value: bytes, _: Sequence[bytes]) -> bytes:
    start = chance.randrange(len(value) + 1)
    end = min(len(value), start + chance.randrange(1, 64))
    return value[:end] + value[start:end] * chance.choice((1, 1, 2, 50)) + value[end:]


def _splice(chance: random.Random, value: bytes, values: Sequence[bytes]) -> bytes:
    other = chance.choice(values)
    return value[: chance.randrange(len(value) + 1)] + other[chance.randrange(len(other) + 1) :]


_DAMAGES = (_flip, _flip, _overwrite, _cut, _insert, _repeat, _splice)
