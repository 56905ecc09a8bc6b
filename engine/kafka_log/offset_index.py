"""Kafka's sparse index of a segment, ``.index``: where in the file batches lie, one entry for some kilobytes.

An entry is 8 bytes, big-endian: an offset relative to the segment's base int32, a position int32. The batch at the
position ends at that offset or before it; both rise. An active segment's index is preallocated
(``segment.index.bytes``) and ends in zeros; the first batch has no entry, so no entry's position is 0. Source: Kafka's
``OffsetIndex`` and ``LogSegment.append``.
"""

from __future__ import annotations

import os
import struct
from typing import Final

from engine.kafka_log.segment import Segment

_ENTRY: Final = struct.Struct(">ii")


def position_before(segment: Segment, offset: int) -> int:
    """The last byte of the index at which a batch begins that ends before ``offset``; 0, the segment's start, where the
    index names none, is missing or can't be read.

    A hint: a broker that was killed leaves an index that knows less, or one of batches that were truncated since.
    ``read_segment`` looks at the batch that is there before it goes on from it. About twenty reads of 8 bytes.
    """
    wanted = offset - segment.base_offset
    if wanted <= 0:
        return 0
    try:
        with segment.offset_index_path.open("rb", buffering=0) as file:
            return _last_before(file.fileno(), wanted)
    except OSError:
        return 0


def _last_before(descriptor: int, wanted: int) -> int:
    low, high = 0, os.fstat(descriptor).st_size // _ENTRY.size
    found = 0
    while low < high:
        middle = (low + high) // 2
        entry = os.pread(descriptor, _ENTRY.size, middle * _ENTRY.size)
        relative, position = _ENTRY.unpack(entry) if len(entry) == _ENTRY.size else (0, 0)
        if position > 0 and relative < wanted:
            low, found = middle + 1, position
        else:
            high = middle
    return found
