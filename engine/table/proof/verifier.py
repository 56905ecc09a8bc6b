"""Turns evidence into proof: the only maker of VerifiedFile, VerifiedErasure and VerifiedRange.

A file is verified when what a worker read back from the warehouse equals what was written for the log's range. A
range is verified when the ledger covers it and every file of the table that holds a part of it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.bounded_cache import BoundedCache
from engine.errors import Corrupt, Unavailable
from engine.offset_range import OffsetRange
from engine.records.digest import EMPTY_DIGEST, RangeDigest, digest_of
from engine.table.data_file import FileDescription
from engine.table.foreign.adopted_rows import adopted_records
from engine.table.live_files import LiveFiles
from engine.table.manifests import TableFile
from engine.table.proof.kept_rows import kept_rows
from engine.table.proof.leaf_facts import Leaf, LeafClaim, LeafFacts, false_claims
from engine.table.proof.verification import Verification, verify_file
from engine.table.topic_table import SOMEBODY_ELSE, TableFacts, TopicTable

REMEMBERED_FILES = 200_000
"""Paths of verified files kept; beyond it the least recently asked about are verified again. About 90 MB."""

_TABLES = 256
"""Tables whose files are kept listed; 10,000 files take about 4 MB."""

_SNAPSHOTS = 512
"""File lists kept, over all tables: readers of a snapshot that was just replaced go on without reading it again."""


# Whoever has it can make a proof; a test keeps every other module from asking for it.
VERIFIERS_TOKEN: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Proof:
    """Nobody but the verifier can make one."""

    token: object = field(repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.token is not VERIFIERS_TOKEN:
            raise TypeError(f"only the verifier makes a {type(self).__name__}")

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a proof does not leave the process that made it")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedFile(_Proof):
    """A file that was read back from the warehouse and found to hold exactly the log's records of its range."""

    description: FileDescription


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedErasure(_Proof):
    """``new`` holds exactly the records of ``old`` without those at ``offsets`` (int64[n], rising), each of which was
    in it; None where none is left. ``before`` and ``after`` are the digests of what was there and of what is left."""

    old: TableFile
    new: VerifiedFile | None
    offsets: NDArray[np.int64] = field(compare=False)
    before: RangeDigest
    after: RangeDigest


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedRange(_Proof):
    """Every offset of ``range`` is in the table and every file that covers it was verified by this process."""

    topic_id: str
    partition: int
    range: OffsetRange


class Verifier:
    """One per process; safe between its threads."""

    def __init__(self) -> None:
        self._verified: BoundedCache[str, OffsetRange] = BoundedCache(capacity=REMEMBERED_FILES)
        self.live = LiveFiles(tables=_TABLES, snapshots=_SNAPSHOTS)
        """Of the tables that are asked about: for whoever reads them, too, so that each manifest is read once."""

    def accept(self, description: FileDescription, found: Verification) -> VerifiedFile:
        """The proof that a written file holds the log's records, from what was ``found`` in it.

        Raises Corrupt naming the first difference.
        """
        for problem in _differences(description, found):
            raise Corrupt(
                problem,
                topic=description.topic,
                partition=description.partition,
                offset=description.range.start,
                file=description.path,
                next_step="the range will be written again; look at the disk and the memory of this machine",
            )
        self._verified.put(description.path, description.range)
        return VerifiedFile(description=description, token=VERIFIERS_TOKEN)

    def accept_erasure(
        self, table: TableFacts, old: TableFile, offsets: NDArray[np.int64], new: VerifiedFile | None
    ) -> VerifiedErasure:
        """The proof that a file may take the place of ``old`` without the records at ``offsets``: ``old`` is read.

        Raises Corrupt where the two are not of the same records but for those, or ``old`` is damaged; Unavailable.
        """
        kept = kept_rows(table, old, offsets)
        written = EMPTY_DIGEST if new is None else new.description.digest
        gone = kept.before.record_count - kept.after.record_count
        place = (old.partition, old.range)
        problems = [
            (written != kept.after, f"what is left has the digest {kept.after.to_text()}, not {written.to_text()}"),
            (gone != len(offsets) or not gone, f"{gone} records of it lie at the {len(offsets)} offsets"),
            (
                new is not None and (new.description.partition, new.description.range) != place,
                "the new file is of another range",
            ),
        ]
        for wrong, problem in problems:
            if wrong:
                raise Corrupt(
                    f"a file that was written without some records is not what is left of the old one: {problem}",
                    topic=table.topic,
                    partition=old.partition,
                    offset=old.range.start,
                    file=old.path,
                    next_step="nothing was changed; run floeberg fsck on the topic",
                )
        return VerifiedErasure(
            old=old, new=new, offsets=offsets, before=kept.before, after=kept.after, token=VERIFIERS_TOKEN
        )

    def verified_range(self, table: TopicTable, partition: int, offsets: OffsetRange) -> VerifiedRange | None:
        """The proof that a range is safe in the table, or None while the ledger does not cover it.

        Files that this process has not verified (committed before it started, or by another one) are read back now,
        against their own footer and manifest entry. Raises Corrupt when a file is damaged or missing or when no file
        holds a part of the range that is not known to be empty; Unavailable when the warehouse does not answer.
        """
        if table.foreign is not None:
            raise Unavailable(
                f"{SOMEBODY_ELSE}, and it was not proven yet that its records are all there: {table.foreign}",
                topic=table.topic,
                partition=partition,
                offset=offsets.start,
                next_step="wait for the next cycle of tiering; floeberg status shows what it finds",
            )
        entry = table.ledger.get(partition)
        if entry is None or not entry.range.covers(offsets):
            return None
        covered = [*table.empty.get(partition, ()), *table.skipped.get(partition, ())]
        for file in self.live.of(table, partition).overlapping(offsets):
            if self._verified.get(file.path) != file.range:
                if file.parts:
                    self._verify_adopted(table, file)
                else:
                    self._verify_stored(table, file)
                self._verified.put(file.path, file.range)
            covered.append(file.range)
        hole = first_hole(offsets, covered)
        if hole is not None:
            raise Corrupt(
                f"the ledger says that {hole} is in the table, and no file holds it",
                topic=table.topic,
                partition=partition,
                offset=hole.start,
                next_step="run floeberg fsck",
            )
        return VerifiedRange(topic_id=table.topic_id, partition=partition, range=offsets, token=VERIFIERS_TOKEN)

    def _verify_stored(self, table: TopicTable, file: TableFile) -> None:
        found = verify_file(file.path, table.facts)
        footer = found.footer
        problems = [
            (found.size_bytes != file.size_bytes, f"it has {found.size_bytes} bytes, the table says {file.size_bytes}"),
            (file.footer_checksum not in {None, found.footer_checksum}, "its footer has another checksum"),
            (footer.topic_id != table.topic_id, f"its footer names the topic id {footer.topic_id}"),
            (footer.range != file.range, f"its footer says {footer.range}, its name {file.range}"),
            (footer.record_count != file.record_count, f"its footer counts {footer.record_count} records"),
            *_row_problems(footer.partition, footer.range, footer.record_count, found),
            (found.partition not in {-1, file.partition}, f"its rows are of partition {found.partition}"),
            (found.digest != footer.digest, f"its rows have the digest {found.digest.to_text()}"),
        ]
        for wrong, problem in problems:
            if wrong:
                raise Corrupt(
                    f"a data file is not what the table says: {problem}",
                    topic=table.topic,
                    partition=file.partition,
                    offset=file.range.start,
                    file=file.path,
                    next_step="run floeberg fsck; keep the broker's own copy of the range",
                )

    def _verify_adopted(self, table: TopicTable, file: TableFile) -> None:
        """Read the rows of an adopted range, as its consumers would, and compare with what was proven of it."""
        digest = EMPTY_DIGEST
        for records in adopted_records(table, file, file.range):
            digest = digest.then(digest_of(records))
        proven = next(part.digest for part in table.adopted[file.partition] if part.range == file.range)
        if digest != proven:
            raise Corrupt(
                f"files that another program wrote have the digest {digest.to_text()}, not the one that was proven",
                topic=table.topic,
                partition=file.partition,
                offset=file.range.start,
                file=file.parts[0].path,
                next_step="run floeberg fsck; keep the broker's own copy of the range",
            )


def _differences(description: FileDescription, found: Verification) -> Iterator[str]:
    """What is wrong with a file, by what was written and what was read back."""
    problems = [
        (found.path != description.path, f"the evidence is of another file, {found.path}"),
        (found.size_bytes != description.size_bytes, f"{found.size_bytes} bytes of {description.size_bytes} are there"),
        (found.checksum != description.checksum, "the file's bytes are not those that were written"),
        (found.footer_checksum != description.footer_checksum, "its footer has another checksum"),
        (found.footer.topic_id != description.topic_id, f"the footer names the topic id {found.footer.topic_id}"),
        (found.footer.range != description.range, f"the footer says {found.footer.range}"),
        *_row_problems(description.partition, description.range, description.record_count, found),
        (found.digest != description.digest, f"the rows have the digest {found.digest.to_text()}"),
    ]
    for wrong, problem in problems:
        if wrong:
            yield f"a written file is not what the log holds: {problem}"
    for problem in false_claims(found.columns, _claims_of(description, found.columns)):
        yield f"what a written file's manifest entry will say is not so: {problem}"


def _claims_of(description: FileDescription, columns: Mapping[Leaf, LeafFacts]) -> dict[int, LeafClaim]:
    """What the manifest will say of Kafka's own columns; those of the value are compared by fsck."""
    wanted = {leaf.field_id for leaf in columns}
    return {
        field_id: LeafClaim(
            value_count=stats.value_count,
            null_count=stats.null_count,
            nan_count=stats.nan_count,
            lower=stats.lower,
            upper=stats.upper,
        )
        for field_id, stats in description.columns.items()
        if field_id in wanted
    }


def _row_problems(
    partition: int, offsets: OffsetRange, record_count: int, found: Verification
) -> list[tuple[bool, str]]:
    outside = found.offsets is not None and not offsets.covers(found.offsets)
    return [
        (found.digest.record_count != record_count, f"{found.digest.record_count} rows of {record_count} are there"),
        (found.partition != partition, f"the rows are of partition {found.partition}"),
        (outside, f"the rows have the offsets {found.offsets}, outside of {offsets}"),
    ]


def first_hole(wanted: OffsetRange, covered: list[OffsetRange]) -> OffsetRange | None:
    """The first offsets of ``wanted`` that none of ``covered`` holds."""
    at = wanted.start
    for item in sorted(covered):
        if item.end <= at:
            continue
        if item.start > at:
            break
        at = item.end
    if at >= wanted.end:
        return None
    following = [item.start for item in covered if item.start > at]
    return OffsetRange(start=at, end=min([wanted.end, *following]))
