"""What a commit is asked to add, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from engine.errors import Invalid
from engine.offset_range import OffsetRange
from engine.records.digest import EMPTY_DIGEST, RangeDigest
from engine.table.proof.verifier import VerifiedFile
from engine.table.topic_table import TopicTable


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeAppend:
    """A range of one partition that is ready for the table.

    ``file`` the verified file with its records, None where the range holds none; ``digest`` of the log's records in
    the range; ``leader_epoch`` the epoch the append acts under; ``skipped`` offsets right before the range that Kafka
    deleted before anybody could store them. Raises Invalid where the file is of another range or digest.
    """

    partition: int
    range: OffsetRange
    leader_epoch: int
    digest: RangeDigest
    file: VerifiedFile | None
    skipped: OffsetRange | None = None

    def __post_init__(self) -> None:
        if self.file is None:
            if self.digest != EMPTY_DIGEST:
                raise Invalid(f"{self.digest.record_count} records of {self.range} have no file")
            return
        description = self.file.description
        same = (
            description.partition == self.partition
            and description.range == self.range
            and description.digest == self.digest
        )
        if not same:
            raise Invalid(
                f"a file of {description.range} is to be added as {self.range}",
                topic=description.topic,
                partition=self.partition,
                file=description.path,
            )


class Outcome(Enum):
    """What became of one append."""

    COMMITTED = "committed"
    ALREADY_THERE = "already there"
    """Every offset was in the table before; this append's file, if it has one, is not referenced."""
    GAP = "gap"
    """The range does not begin where the table ends: offsets in between would be lost."""
    OVERLAP = "overlap"
    """A part of the range is in the table: plan again from the ledger's end."""
    FENCED = "fenced"
    """A newer leader epoch has committed: this process no longer owns the partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendResult:
    """One append and what became of it."""

    append: RangeAppend
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """``results`` in the order the appends were given; ``table`` as it is after the commit."""

    table: TopicTable
    results: tuple[AppendResult, ...]

    def with_outcome(self, outcome: Outcome) -> tuple[RangeAppend, ...]:
        return tuple(result.append for result in self.results if result.outcome is outcome)
