"""Proof that a file or a range is safe in the warehouse. Nobody but the verifier can make one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.offset_range import OffsetRange
from engine.table.data_file import FileDescription

# Handed to the verifier alone (engine/table/proof/verifier.py); a test keeps every other module from asking for it.
VERIFIERS_TOKEN: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedFile:
    """A file that was read back from the warehouse and found to hold exactly the log's records of its range."""

    description: FileDescription
    token: object = field(repr=False, compare=False)

    def __post_init__(self) -> None:
        _check(self.token, self)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a proof does not leave the process that made it")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedRange:
    """Every offset of ``range`` is in the table and every file that covers it was verified by this process."""

    topic_id: str
    partition: int
    range: OffsetRange
    token: object = field(repr=False, compare=False)

    def __post_init__(self) -> None:
        _check(self.token, self)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a proof does not leave the process that made it")


def _check(token: object, proof: object) -> None:
    if token is not VERIFIERS_TOKEN:
        raise TypeError(f"only the verifier makes a {type(proof).__name__}")
