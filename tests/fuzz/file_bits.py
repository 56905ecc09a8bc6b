"""Bits flipped in every region of a table file: fsck names each, and readers by offset get exact records or none.

``python -m tests.fuzz.file_bits --flips 200 --seed 1``: so many in each region, and a table of what came of them.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rich.console import Console
from rich.table import Table

from engine.errors import Corrupt
from engine.fsck.check import fsck_table
from engine.offset_range import OffsetRange
from engine.parquet import thrift_kernels as walk
from engine.parquet.checksums import value_place
from engine.parquet.footer import TRAILER_BYTES
from engine.parquet.thrift import ThriftTape
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from engine.table.commit.range_append import RangeAppend
from engine.table.proof.page_claims import ChunkPages
from engine.table.proof.verification import opened, verify_file
from engine.table.proof.verifier import Verifier
from engine.table.topic_table import TopicTable
from engine.warehouse.warehouse import Warehouse
from tests.engine.table.table_examples import ensure_table, open_writer, records_of, write_file

RECORDS = 9000
"""Three pages a column."""

OFFSETS = OffsetRange(start=0, end=RECORDS)
STARTS = (0, 5000)
"""Where readers begin: at the first page, and in the second."""


@dataclass(slots=True, kw_only=True)
class Outcomes:
    """Of the flips in one region."""

    flips: int = 0
    named: int = 0
    refused: int = 0
    read_wrongly: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FlippedFile:
    """A table of one file, its honest bytes, and what readers get of them."""

    table: TopicTable
    path: Path
    content: bytes
    answers: tuple[bytes, ...]

    @classmethod
    def make(cls, folder: Path) -> FlippedFile:
        """Values, keys and headers of all kinds: null, repeated (dictionaries), and different ones."""
        writer = open_writer(folder)
        table = ensure_table(writer)
        records = records_of(
            [None if at % 7 == 0 else b"value %d" % (at * 7919) for at in range(RECORDS)],
            keys=[None if at % 5 == 0 else b"key %d" % (at % 100) for at in range(RECORDS)],
            headers=[[(b"h", b"%d" % at)] * (at % 3) for at in range(RECORDS)],
        )
        written = write_file(table.facts, records, covered=OFFSETS)
        proof = Verifier().accept(written, verify_file(written.path, table.facts))
        append = RangeAppend(partition=0, range=OFFSETS, leader_epoch=3, digest=written.digest, file=proof)
        table = writer.commit(table, [append]).table
        path = Path(written.path.removeprefix("file://"))
        answers = tuple(answer for answer in _answers(table) if answer is not None)
        assert len(answers) == len(STARTS), "the honest file is read"
        assert not fsck_table(table, log_dirs=[]).findings, "the honest file is healthy"
        return cls(table=table, path=path, content=path.read_bytes(), answers=answers)

    def flip(self, bit: int, outcomes: Outcomes) -> None:
        """Flip one bit of the file and look at it with all eyes; the file is whole again afterwards."""
        damaged = bytearray(self.content)
        damaged[bit >> 3] ^= 1 << (bit & 7)
        self.path.write_bytes(damaged)
        try:
            findings = fsck_table(self.table, log_dirs=[]).findings
            answers = list(_answers(self.table))
        finally:
            self.path.write_bytes(self.content)
        outcomes.flips += 1
        outcomes.named += any(
            finding.file is not None and finding.file.endswith(self.path.name) for finding in findings
        )
        outcomes.refused += None in answers
        right = zip(answers, self.answers, strict=True)
        outcomes.read_wrongly += any(answer not in {None, expected} for answer, expected in right)


def _answers(table: TopicTable) -> Iterator[bytes | None]:
    """The batches from each of ``STARTS`` on, by readers that have nothing in memory; None where one is refused."""
    for start in STARTS:
        index = FileIndex()
        reader = LogReader(file_index=index)
        try:
            yield b"".join(reader.read(table, 0, offsets=OFFSETS, start=start))
        except Corrupt:
            yield None
        finally:
            reader.close()
            index.close()


def regions(path: Path) -> dict[str, list[tuple[int, int]]]:
    """(start, end) of the parts of the file that are of one kind; together they are the file."""
    source = opened(Warehouse(), str(path))
    footer = source.footer()
    size, footer_bytes = source.size_bytes, len(footer.encoded)
    found: dict[str, list[tuple[int, int]]] = {
        "leading magic": [(0, 4)],
        "page headers": [],
        "dictionary pages": [],
        "data pages": [],
        "column index": [],
        "offset index": [],
    }
    for group in map(footer.row_group, range(len(footer.group_at))):
        for chunk in group.chunks:
            pages = ChunkPages.walk(chunk, source.read([chunk.data])[0], str(path))
            starts, bodies = (pages.table[row] + chunk.data.start for row in (walk.START, walk.BODY))
            ends = bodies + pages.table[walk.STORED_BYTES]
            found["page headers"] += zip(starts.tolist(), bodies.tolist(), strict=True)
            parts = list(zip(bodies.tolist(), ends.tolist(), strict=True))
            found["dictionary pages"] += parts[: pages.first_data]
            found["data pages"] += parts[pages.first_data :]
            for name, part in (("column index", chunk.column_index), ("offset index", chunk.offset_index)):
                found[name] += [] if part is None else [(part.start, part.end)]
    start = size - TRAILER_BYTES - footer_bytes
    tape = ThriftTape.read(footer.encoded, file=str(path), what="footer")
    words = tape.fields_of(0)[5]
    first, last = start + int(tape.start[words]), start + int(tape.end[words])
    value = value_place(tape)
    assert value is not None, "a file of ours has checksums"
    checksums = (start + value.start, start + value.stop)
    found["footer"] = [(start, first), (last, start + footer_bytes)]
    found["footer: key-values"] = [(first, checksums[0]), (checksums[1], last)]
    found["footer: checksums"] = [checksums]
    found["footer length"] = [(size - 8, size - 4)]
    found["trailing magic"] = [(size - 4, size)]
    covered = sum(end - start for parts in found.values() for start, end in parts)
    assert covered == size, "the regions are the whole file"
    return found


def run(flips: int, seed: int) -> dict[str, Outcomes]:
    """``flips`` bits of each region, all of them where it has fewer."""
    with TemporaryDirectory() as folder:
        file = FlippedFile.make(Path(folder))
        outcomes = {}
        for name, parts in regions(file.path).items():
            bits = np.concatenate([np.arange(8 * start, 8 * end) for start, end in parts])
            chance = random.Random(f"{seed} {name}")
            outcomes[name] = Outcomes()
            for bit in chance.sample(bits.tolist(), min(flips, len(bits))):
                file.flip(bit, outcomes[name])
        return outcomes


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m tests.fuzz.file_bits", description=__doc__)
    arguments.add_argument("--flips", type=int, default=100, help="in each region")
    arguments.add_argument("--seed", type=int, default=1)
    asked = arguments.parse_args()
    shown = Table("region", "flips", "named by fsck", "refused by the reader", "read wrongly")
    for name, found in run(asked.flips, asked.seed).items():
        shown.add_row(
            name, *(f"{number:,}" for number in (found.flips, found.named, found.refused, found.read_wrongly))
        )
    Console().print(shown)


if __name__ == "__main__":
    main()
