"""``leader-epoch-checkpoint``: which leader epoch wrote which offsets of a partition (KIP-101).

Kafka's checkpoint files are text: a version, a count of entries, then one entry a line (``CheckpointFile``).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engine.errors import Corrupt, Unavailable

FILE_NAME: Final = "leader-epoch-checkpoint"
_VERSION: Final = "0"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderEpochs:
    """``entries``: (epoch, start offset), both strictly rising; an epoch lasts to the next one's start."""

    entries: tuple[tuple[int, int], ...]

    @classmethod
    def read(cls, directory: Path) -> LeaderEpochs:
        """The file in a partition's directory; empty when there is none yet. Errors: Unavailable, Corrupt."""
        path = directory / FILE_NAME
        try:
            return cls.from_text(path.read_text(encoding="utf-8"), file=str(path))
        except FileNotFoundError:
            return cls(entries=())
        except OSError as error:
            raise Unavailable(f"A checkpoint file can't be read: {error.strerror}", file=str(path)) from error
        except UnicodeDecodeError as error:
            raise _corrupt("is not text", str(path)) from error

    @classmethod
    def from_text(cls, text: str, *, file: str) -> LeaderEpochs:
        """A text without version or without count has no entries, as Kafka reads it (it creates the file empty).

        Errors: Corrupt, naming ``file``, when the text is not what Kafka writes.
        """
        if len(text.splitlines()) < 2:
            return cls(entries=())
        version, count, *lines = text.splitlines()
        if version.strip() != _VERSION:
            raise _corrupt(f"has version {version!r}, not {_VERSION}", file)
        if count.strip() != str(len(lines)):
            raise _corrupt(f"says it has {count!r} entries and has {len(lines)}", file)
        entries = tuple(_entry(line, file) for line in lines)
        for before, after in itertools.pairwise(entries):
            if not (before[0] < after[0] and before[1] < after[1]):
                raise _corrupt("has leader epochs that do not rise with their offsets", file)
        return cls(entries=entries)


def _entry(line: str, file: str) -> tuple[int, int]:
    try:
        epoch, start = (int(part) for part in line.split())
    except ValueError as error:
        raise _corrupt(f"has the line {line!r} where an epoch and an offset must be", file) from error
    if not (-(2**31) <= epoch < 2**31 and -(2**63) <= start < 2**63):
        raise _corrupt(f"has numbers too large for Kafka: {line!r}", file)
    return epoch, start


def _corrupt(what: str, file: str) -> Corrupt:
    step = "the broker rewrites it within a minute; if it stays, look at the broker's own log"
    return Corrupt(f"A checkpoint file {what}", file=file, next_step=step)
