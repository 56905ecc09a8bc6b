"""``partition.metadata``: the topic id beside the segments of a partition (KIP-516)."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Final

from engine.errors import Corrupt, Unavailable

FILE_NAME: Final = "partition.metadata"
_TEXT: Final = re.compile(r"version:\s+(?P<version>\d+)\r?\ntopic_id:\s+(?P<topic_id>[A-Za-z0-9_-]{22})\s*", re.ASCII)
_VERSION: Final = "0"
# Kafka's own stand-in for "no id", which it refuses in this file too.
_ZERO_ID: Final = bytes(16)


def read_topic_id(directory: Path) -> str:
    """The topic id of the partition in ``directory``: 22 characters of URL-safe base64.

    Errors: Unavailable when the file is not there (the broker writes it a moment after the directory) or can't be
    read; Corrupt when it does not say what Kafka writes (Kafka's ``PartitionMetadataFile``).
    """
    path = directory / FILE_NAME
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise Unavailable(f"A partition's directory has no {FILE_NAME} yet", file=str(path)) from error
    except OSError as error:
        raise Unavailable(f"A partition's {FILE_NAME} can't be read: {error.strerror}", file=str(path)) from error
    except UnicodeDecodeError as error:
        raise _corrupt(path) from error
    found = _TEXT.fullmatch(text)
    if found is None or found["version"] != _VERSION:
        raise _corrupt(path)
    topic_id = found["topic_id"]
    if base64.urlsafe_b64decode(topic_id + "==") == _ZERO_ID:
        raise _corrupt(path)
    return topic_id


def format_partition_metadata(topic_id: str) -> str:
    """The text of the file, as Kafka writes it; the inverse of ``read_topic_id``."""
    return f"version: {_VERSION}\ntopic_id: {topic_id}"


def _corrupt(path: Path) -> Corrupt:
    return Corrupt(
        f"A partition's {FILE_NAME} does not name a topic id in version {_VERSION}",
        file=str(path),
        next_step="compare it with the same file of another partition of the topic",
    )
