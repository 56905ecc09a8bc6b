"""The decision on replacements, against a model: whatever is accepted leaves every record in the table once."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from engine.offset_range import OffsetRange
from engine.records.digest import EMPTY_DIGEST, RangeDigest
from engine.table.adopted_range import AdoptedRange, ForeignFile
from engine.table.commit.replacement import FileReplacement, decide_replacements
from engine.table.data_file import FileDescription
from engine.table.ledger import Outcome
from engine.table.manifests import SnapshotFiles, TableFile
from engine.table.proof.verifier import VERIFIERS_TOKEN, VerifiedFile

ATTEMPTS = "abc"


def digest_of(offsets: OffsetRange) -> RangeDigest:
    """Any digests that combine as ranges do: here of as many records as there are offsets."""
    one = (RangeDigest(crc32c=at * 7 + 1, length_bytes=8, record_count=1) for at in range(offsets.start, offsets.end))
    return reduce(RangeDigest.then, one, EMPTY_DIGEST)


@dataclass(frozen=True)
class Stored:
    partition: int
    range: OffsetRange
    holes: tuple[OffsetRange, ...] = ()

    @property
    def digest(self) -> RangeDigest:
        ends = [self.range.start, *(end for hole in self.holes for end in (hole.start, hole.end)), self.range.end]
        filled = (OffsetRange(start=a, end=b) for a, b in zip(ends[::2], ends[1::2], strict=True))
        return reduce(RangeDigest.then, map(digest_of, filled), EMPTY_DIGEST)

    def listed(self, attempt: str = "first") -> TableFile:
        return TableFile(
            partition=self.partition,
            range=self.range,
            path=f"{self.partition}/{self.range}-{attempt}",
            size_bytes=100,
            record_count=self.digest.record_count,
            leader_epoch=0,
        )

    def verified(self, attempt: str) -> VerifiedFile:
        file = self.listed(attempt)
        description = FileDescription(
            path=file.path,
            topic="orders",
            topic_id="A",
            partition=file.partition,
            range=file.range,
            leader_epoch=0,
            record_count=file.record_count,
            size_bytes=100,
            checksum=0,
            footer_checksum=0,
            digest=self.digest,
            schema_ids=(),
            raw_rows=0,
            error_rows=0,
            columns={},
            split_offsets=(),
        )
        return VerifiedFile(description=description, token=VERIFIERS_TOKEN)


def merged(files: Sequence[Stored]) -> Stored:
    pairs = itertools.pairwise(files)
    between = [OffsetRange(start=a.range.end, end=b.range.start) for a, b in pairs if a.range.end < b.range.start]
    holes = sorted([*between, *(hole for file in files for hole in file.holes)])
    return Stored(files[0].partition, OffsetRange(start=files[0].range.start, end=files[-1].range.end), tuple(holes))


@st.composite
def partitions(draw: st.DrawFn) -> list[list[Stored]]:
    """Two partitions' files, in order, some with offsets between them that no file holds."""
    found = []
    for partition in range(2):
        at, files = 0, []
        for gap, length in draw(st.lists(st.tuples(st.sampled_from([0, 0, 3]), st.integers(1, 4)), max_size=6)):
            files.append(Stored(partition, OffsetRange(start=at + gap, end=at + gap + length)))
            at += gap + length
        found.append(files)
    return found


@st.composite
def groups(draw: st.DrawFn, files: list[list[Stored]]) -> list[tuple[Sequence[Stored], FileReplacement]]:
    """Merges that were planned on ``files``, one file for some or two; they may want the same ones."""
    asked = []
    for attempt in ATTEMPTS[: draw(st.integers(1, len(ATTEMPTS)))]:
        held = draw(st.sampled_from(files))
        if not held:
            continue
        first = draw(st.integers(0, len(held) - 1))
        old = held[first : first + draw(st.integers(1, 3))]
        cut = draw(st.integers(0, len(old) - 1))
        new = (
            [merged(old)]
            if cut == 0 or old[cut - 1].range.end < old[cut].range.start
            else [
                merged(old[:cut]),
                merged(old[cut:]),
            ]
        )
        replacement = FileReplacement(
            old=tuple(file.listed() for file in old),
            digest=merged(old).digest,
            new=tuple(file.verified(attempt) for file in new),
        )
        asked.append((old, replacement))
    return asked


@given(st.data())
def test_each_group_stands_or_falls_alone_and_records_stay_once(data: st.DataObject) -> None:
    planned = data.draw(partitions())
    asked = data.draw(groups(planned))
    every = [file for held in planned for file in held]
    # What others did since: files taken out, put in between, adopted.
    lost = data.draw(st.sets(st.sampled_from(every), max_size=2)) if every else set()
    present = [file.listed() for file in every if file not in lost]
    added = data.draw(st.sampled_from([None, *(hole for _, one in asked for hole in _holes_of(one))]))
    adopted = [file for file in sorted(lost, key=str) if data.draw(st.booleans())]
    if added is not None and data.draw(st.booleans()):
        adopted.append(added)
    elif added is not None:
        present.append(added.listed("others"))
    outcomes, accepted = decide_replacements(
        SnapshotFiles(own=tuple(sorted(present))),
        [one for _, one in asked],
        {0: _adopted(adopted, 0), 1: _adopted(adopted, 1)},
    )
    left = {file.path: file for file in present}
    for (old, one), outcome in zip(asked, outcomes, strict=True):
        wanted = [file.listed() for file in old]
        inside = [file for file in present if file.partition == one.partition and file.range.overlaps(one.range)]
        adopted_inside = any(a.partition == one.partition and a.range.overlaps(one.range) for a in adopted)
        may = sorted(inside) == wanted and not adopted_inside and all(file.path in left for file in wanted)
        assert (outcome is Outcome.COMMITTED) == may == (one in accepted)
        if may:
            for file in wanted:
                del left[file.path]
            left.update({new.path: _as_listed(new) for new in one.descriptions})
    after = sorted(left.values())
    assert all(a.partition != b.partition or a.range.end <= b.range.start for a, b in itertools.pairwise(after))
    assert sum(file.record_count for file in after) == sum(file.record_count for file in present)


@given(st.data())
def test_group_whose_answer_was_lost_is_found_committed(data: st.DataObject) -> None:
    planned = data.draw(partitions())
    for old, one in data.draw(groups(planned)):
        others = [file.listed() for held in planned for file in held if file not in old]
        landed = SnapshotFiles(own=tuple(sorted([*others, *map(_as_listed, one.descriptions)])))
        assert decide_replacements(landed, [one]) == ((Outcome.COMMITTED,), ())


def _holes_of(one: FileReplacement) -> list[Stored]:
    pairs = zip(one.old, one.old[1:], strict=False)
    return [
        Stored(one.partition, OffsetRange(start=a.range.end, end=b.range.start))
        for a, b in pairs
        if a.range.end < b.range.start
    ]


def _adopted(files: Sequence[Stored], partition: int) -> list[AdoptedRange]:
    return [
        AdoptedRange(
            partition=partition,
            range=file.range,
            digest=file.digest,
            files=(ForeignFile(path="theirs", partition=partition, size_bytes=1, record_count=1),),
        )
        for file in files
        if file.partition == partition
    ]


def _as_listed(new: FileDescription) -> TableFile:
    return TableFile(
        partition=new.partition,
        range=new.range,
        path=new.path,
        size_bytes=new.size_bytes,
        record_count=new.record_count,
        leader_epoch=0,
    )
