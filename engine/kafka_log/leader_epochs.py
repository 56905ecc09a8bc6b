"""``leader-epoch-checkpoint``: which leader epoch wrote which offsets of a partition (KIP-101)."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engine.errors import Corrupt
from engine.kafka_log.checkpoint_file import format_checkpoint, parse_checkpoint, parse_number, read_checkpoint

FILE_NAME: Final = "leader-epoch-checkpoint"
UNKNOWN_EPOCH: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderEpochs:
    """``entries``: (epoch, start offset), both strictly rising; an epoch lasts to the next one's start."""

    entries: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        for (epoch, start), (next_epoch, next_start) in zip(self.entries, self.entries[1:], strict=False):
            if not (epoch < next_epoch and start < next_start):
                raise ValueError(f"leader epochs must rise with their offsets: {self.entries}")

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote ``offset``; -1 when it is before the first known one."""
        index = bisect.bisect_right(self.entries, offset, key=lambda entry: entry[1]) - 1
        return self.entries[index][0] if index >= 0 else UNKNOWN_EPOCH

    def to_text(self) -> str:
        """The text of the file."""
        return format_checkpoint(self.entries)

    @classmethod
    def from_text(cls, text: str, *, file: str) -> LeaderEpochs:
        """Errors: Corrupt when the text is not what Kafka writes; ``file`` is named in it."""
        return cls._from_lines(parse_checkpoint(text, fields=2, file=file), file)

    @classmethod
    def read(cls, directory: Path) -> LeaderEpochs:
        """The file in a partition's directory; empty when there is none yet. Errors: Unavailable, Corrupt."""
        path = directory / FILE_NAME
        return cls._from_lines(read_checkpoint(path, fields=2), str(path))

    @classmethod
    def _from_lines(cls, lines: list[list[str]], file: str) -> LeaderEpochs:
        entries = tuple(
            (parse_number(epoch, bits=32, file=file), parse_number(start, bits=64, file=file)) for epoch, start in lines
        )
        try:
            return cls(entries=entries)
        except ValueError as error:
            raise Corrupt("A leader epoch checkpoint does not rise", file=file) from error
