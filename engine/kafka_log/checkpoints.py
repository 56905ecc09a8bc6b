"""The offset checkpoints of a log directory: one file for all of its partitions, ``<topic> <partition> <offset>``.

Source: Kafka's ``OffsetCheckpointFile``. They are written every few seconds to a minute and may be that much behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from engine.kafka_log.checkpoint_file import format_checkpoint, parse_number, read_checkpoint

HIGH_WATERMARK_FILE_NAME: Final = "replication-offset-checkpoint"
LOG_START_FILE_NAME: Final = "log-start-offset-checkpoint"


def read_high_watermarks(log_dir: Path) -> Mapping[tuple[str, int], int]:
    """(topic, partition) -> high watermark, of ``replication-offset-checkpoint``; empty when there is no file.

    Errors: Unavailable, Corrupt.
    """
    return read_offset_checkpoint(log_dir / HIGH_WATERMARK_FILE_NAME)


def read_log_starts(log_dir: Path) -> Mapping[tuple[str, int], int]:
    """(topic, partition) -> log start offset, of ``log-start-offset-checkpoint``; empty when there is no file.

    The broker lists only partitions whose start is above their first segment's base offset.
    Errors: Unavailable, Corrupt.
    """
    return read_offset_checkpoint(log_dir / LOG_START_FILE_NAME)


def read_offset_checkpoint(path: Path) -> Mapping[tuple[str, int], int]:
    """(topic, partition) -> offset of any checkpoint file of this kind. Errors: Unavailable, Corrupt."""
    file = str(path)
    return {
        (topic, parse_number(partition, bits=32, file=file)): parse_number(offset, bits=64, file=file)
        for topic, partition, offset in read_checkpoint(path, fields=3)
    }


def format_offset_checkpoint(offsets: Mapping[tuple[str, int], int]) -> str:
    """The text of such a file, the inverse of ``read_offset_checkpoint``."""
    return format_checkpoint((topic, partition, offset) for (topic, partition), offset in offsets.items())
