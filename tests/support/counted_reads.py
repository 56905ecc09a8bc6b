"""Counts the bytes that this process reads of segments."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest


def bytes_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What each read of a file gave, from now on."""
    found: list[int] = []
    pread, preadv = os.pread, os.preadv

    def counted(descriptor: int, size: int, position: int) -> bytes:
        data = pread(descriptor, size, position)
        found.append(len(data))
        return data

    def counted_into(descriptor: int, buffers: Sequence[memoryview], position: int) -> int:
        found.append(preadv(descriptor, buffers, position))
        return found[-1]

    monkeypatch.setattr(os, "pread", counted)
    monkeypatch.setattr(os, "preadv", counted_into)
    return found
