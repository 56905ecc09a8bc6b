"""Segments: the files of a partition's log.

A segment is ``<base offset in 20 digits>.log`` with ``.index``, ``.timeindex`` and, once a transaction was aborted,
``.txnindex`` beside it. Other endings of the same name mark files that are no part of the log: ``.deleted`` (removed
after ``file.delete.delay.ms``), ``.cleaned`` and ``.swap`` (the cleaner's work under way). Source: ``LogFileUtils``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engine.errors import Unavailable

# A broker rolls a segment before an offset is so far from its base that an index entry could not hold it.
MAX_RELATIVE_OFFSET: Final = 2**31 - 1
_LOG_NAME: Final = re.compile(r"([0-9]{20})\.log", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Segment:
    """One ``.log`` file as it was when listed. ``modified_ms`` is the file system's, since the Unix epoch."""

    base_offset: int
    log_path: Path
    size_bytes: int
    modified_ms: int

    @property
    def offset_index_path(self) -> Path:
        return self.log_path.with_suffix(".index")

    @property
    def time_index_path(self) -> Path:
        return self.log_path.with_suffix(".timeindex")

    @property
    def transaction_index_path(self) -> Path:
        return self.log_path.with_suffix(".txnindex")


def segment_file_name(base_offset: int) -> str:
    return f"{base_offset:020d}.log"


def base_offset_in(log_path: Path) -> int | None:
    """The base offset that the file's name states, or None for another kind of name."""
    name = _LOG_NAME.fullmatch(log_path.name)
    return int(name[1]) if name else None


def list_segments(directory: Path) -> tuple[Segment, ...]:
    """The live segments of a partition's directory, by rising base offset; the last one is the active segment.

    A file that vanishes while the directory is read is left out. Errors: Unavailable when the directory is gone or
    can't be read.
    """
    segments = []
    try:
        for path in directory.iterdir():
            name = _LOG_NAME.fullmatch(path.name)
            if name is None:
                continue
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            segments.append(
                Segment(
                    base_offset=int(name[1]),
                    log_path=path,
                    size_bytes=status.st_size,
                    modified_ms=status.st_mtime_ns // 1_000_000,
                )
            )
    except OSError as error:
        problem = f"A partition's directory can't be listed: {error.strerror}"
        raise Unavailable(problem, file=str(directory)) from error
    return tuple(sorted(segments))
