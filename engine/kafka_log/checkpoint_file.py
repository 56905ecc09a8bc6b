"""Kafka's checkpoint files: text, a version, a count of entries, then one entry a line (``CheckpointFile``)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from engine.errors import Corrupt, Unavailable

_VERSION: Final = 0


def parse_checkpoint(text: str, *, fields: int, file: str) -> list[list[str]]:
    """The entries, each split at white space into ``fields`` parts.

    A text without version or without count has no entries, as Kafka reads it (it creates the file empty).
    Errors: Corrupt for another version, a wrong count, a line of another number of parts.
    """
    lines = text.splitlines()
    if len(lines) < 2:
        return []
    if lines[0].strip() != str(_VERSION):
        raise _corrupt(f"has version {lines[0]!r}, not {_VERSION}", file)
    entries = [line.split() for line in lines[2:]]
    for line, entry in zip(lines[2:], entries, strict=True):
        if len(entry) != fields:
            raise _corrupt(f"has a line of {len(entry)} parts instead of {fields}: {line!r}", file)
    if lines[1].strip() != str(len(entries)):
        raise _corrupt(f"says it has {lines[1]!r} entries and has {len(entries)}", file)
    return entries


def format_checkpoint(entries: Iterable[Iterable[object]]) -> str:
    """The text of a checkpoint file, the inverse of ``parse_checkpoint``."""
    lines = [" ".join(str(part) for part in entry) for entry in entries]
    return "\n".join([str(_VERSION), str(len(lines)), *lines]) + "\n"


def read_checkpoint(path: Path, *, fields: int) -> list[list[str]]:
    """The entries of the file at ``path``; none when it does not exist yet.

    Errors: Unavailable when it can't be read, Corrupt as ``parse_checkpoint``.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Unavailable(f"A checkpoint file can't be read: {error.strerror}", file=str(path)) from error
    except UnicodeDecodeError as error:
        raise _corrupt("is not text", str(path)) from error
    return parse_checkpoint(text, fields=fields, file=str(path))


def parse_number(text: str, *, bits: int, file: str) -> int:
    """A decimal number that fits a signed integer of ``bits``. Errors: Corrupt."""
    try:
        number = int(text)
    except ValueError as error:
        raise _corrupt(f"has {text!r} where a number must be", file) from error
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise _corrupt(f"has {text}, which does not fit {bits} bits", file)
    return number


def _corrupt(what: str, file: str) -> Corrupt:
    step = "the broker rewrites it within a minute; if it stays, look at the broker's own log"
    return Corrupt(f"A checkpoint file {what}", file=file, next_step=step)
