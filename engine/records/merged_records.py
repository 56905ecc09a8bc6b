"""Records of several rising runs, such as the row groups of a window, put together in offset order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.records.records import ByteSpans, Headers, Records

PIECE_ROWS = 64 * 1024
"""Records put together at once where a whole window's bytes need not lie in memory twice."""


def merged_pieces(runs: Sequence[Records]) -> Iterator[Records]:
    """The records of all runs, each of rising offsets, in pieces that follow each other, of about PIECE_ROWS where the
    offsets have no wide gaps. An offset that two runs have comes twice.

    Memory: a piece's strings are copied, so that those of whole runs need not lie in memory twice, nor in one buffer
    that is too large to be used again.
    """
    runs = [run for run in runs if len(run)]
    if len(runs) <= 1:
        yield from runs
        return
    first, last = min(int(run.offset[0]) for run in runs), max(int(run.offset[-1]) for run in runs)
    count = -(-sum(map(len, runs)) // PIECE_ROWS)
    cuts = [first + (last + 1 - first) * piece // count for piece in range(1, count)]
    edges = [np.concatenate([[0], np.searchsorted(run.offset, cuts), [len(run)]]) for run in runs]
    for piece in range(count):
        parts = [run.slice(int(at[piece]), int(at[piece + 1])) for run, at in zip(runs, edges, strict=True)]
        parts = [part for part in parts if len(part)]
        if parts:
            yield _merged(parts)


def _merged(runs: Sequence[Records]) -> Records:
    """The strings of a run are copied one after another, only positions are put in order."""
    offset = np.concatenate([run.offset for run in runs])
    order = np.argsort(offset, kind="stable")  # of a few rising runs: they are merged
    return Records(
        offset=offset[order],
        timestamp_ms=np.concatenate([run.timestamp_ms for run in runs])[order],
        timestamp_type=np.concatenate([run.timestamp_type for run in runs])[order],
        leader_epoch=np.concatenate([run.leader_epoch for run in runs])[order],
        key=_joined([run.key for run in runs]).select(order),
        value=_joined([run.value for run in runs]).select(order),
        headers=_merged_headers(runs, order),
    )


def _joined(parts: Sequence[ByteSpans]) -> ByteSpans:
    """The strings of all parts over one buffer; of each the bytes from its first string to its last."""
    data: list[NDArray[np.uint8]] = []
    start: list[NDArray[np.int64]] = []
    at = 0
    for part in parts:
        used = part.length > 0
        low, high = 0, 0
        if used.any():
            low = int(part.start.min(where=used, initial=len(part.data)))
            high = int((part.start + part.length).max(where=used, initial=0))
        data.append(part.data[low:high])
        start.append(np.where(used, part.start + (at - low), 0))
        at += high - low
    return ByteSpans(
        data=np.concatenate(data),
        start=np.concatenate(start),
        length=np.concatenate([part.length for part in parts]),
    )


def _merged_headers(runs: Sequence[Records], order: NDArray[np.intp]) -> Headers | None:
    if all(run.headers is None for run in runs):
        return None
    counts, keys, values, firsts = [], [], [], []
    at = 0
    for run in runs:
        headers = run.headers
        if headers is None:
            counts.append(np.zeros(len(run), np.int64))
            firsts.append(np.zeros(len(run), np.int64))
            continue
        base, end = int(headers.first[0]), int(headers.first[-1])
        counts.append(np.diff(headers.first))
        firsts.append(headers.first[:-1] + (at - base))
        keys.append(headers.key.select(slice(base, end)))
        values.append(headers.value.select(slice(base, end)))
        at += end - base
    count = np.concatenate(counts)[order]
    first = np.zeros(len(order) + 1, np.int64)
    np.cumsum(count, out=first[1:])
    # Header h of the record that came to row r was the (h - first[r])-th from where that record's began.
    headers_at = np.arange(first[-1]) + np.repeat(np.concatenate(firsts)[order] - first[:-1], count)
    return Headers(first=first, key=_joined(keys).select(headers_at), value=_joined(values).select(headers_at))
