"""Compares what producers were told with what the table holds and the log door serves: the promises, one by one."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable

from pyiceberg.table.metadata import TableMetadata

from engine.errors import Corrupt, FloebergError
from engine.kafka_log.record_batch import CONTROL_FLAG, parse_header
from engine.offset_range import OffsetRange
from engine.records.digest import EMPTY_DIGEST, digest_of
from engine.table.data_file import parse_file_name
from serving.log.backend import LogDoorBackend, NoSuchSegment, RemoteSegment
from tests.engine.kafka_log.batch_twin import Row, parse_batch, records_from
from tests.simulation.audit_erasure import ErasureAudit, Place
from tests.simulation.audit_latest import LatestAudit, is_latest
from tests.simulation.catalog import Identifier
from tests.simulation.partition import Partition
from tests.simulation.table_reading import LedgerLine, StoredFile, TableReading, ledger_of, ranges_of


class Auditor:
    """Gathers findings, each beginning with its kind: lost, doubled, order, altered, invented, unproven, ledger,
    digest, door, stuck, horizon, swept, erased, latest. ``wounds``: offsets whose file somebody else took from the
    table, by topic id and partition, and whether it had a record there. ``replaced``: paths that a table listed
    once and does no more."""

    def __init__(self, reading: TableReading, now_ms: Callable[[], int]) -> None:
        self.findings: list[str] = []
        self.replaced: set[str] = set()
        self.audited = Counter[str]()
        self.wounds: dict[Place, dict[int, bool]] = {}
        self.reading = reading
        self.erasures = ErasureAudit()
        self.latest = LatestAudit(reading)
        self._now_ms = now_ms

    def found(self, kind: str, partition: Partition | None, text: str) -> None:
        where = "" if partition is None else f"{partition.who} ({partition.who.topic_id[:4]}): "
        finding = f"{kind}: {where}{text}"
        if finding not in self.findings:
            self.findings.append(finding)

    def on_commit(self, name: Identifier, before: TableMetadata | None, after: TableMetadata) -> None:
        """Every change of a table, as it happens: the ledger only goes forward, nobody older extends it, and whatever
        files take the place of others, no record leaves but at a horizon or by an erasure."""
        if is_latest(after):
            for text in self.latest.wrong(after):
                self.found("latest", None, f"{'.'.join(name)}: {text}")
            return
        self.latest.note(after)
        if before is None:
            return
        for path in sorted(self.reading.missing):
            self.found("swept", None, f"{path.rpartition('/')[2]} is missing, and a table names it")
        for key in before.properties:
            if not key.startswith("floeberg.ledger."):
                continue
            number = int(key.rpartition(".")[2])
            old, new = ledger_of(before, number), ledger_of(after, number)
            assert old is not None, "the property is there"
            backwards = new is None or (
                new.start != old.start
                or new.end < old.end
                or new.epoch < old.epoch
                or new.log_start < old.log_start
                or new.table_start < old.table_start
                or new.held_start < old.held_start
            )
            if backwards:
                self.found("ledger", None, f"{'.'.join(name)} partition {number} went from {old} to {new}")
        known = {file.path for file in self.reading.all_files(before)}
        for file in self.reading.files(after):
            line, written = ledger_of(before, file.partition), parse_file_name(file.path)
            is_new = file.path not in known and line is not None and written.range.start >= line.end
            if is_new and written.leader_epoch < line.epoch:
                self.found("ledger", None, f"a fenced owner added {file.path.rpartition('/')[2]} behind {line}")
        self.replaced |= known - {file.path for file in self.reading.all_files(after)}
        self._none_left(name, before, after)

    def _none_left(self, name: Identifier, before: TableMetadata, after: TableMetadata) -> None:
        """SQL loses what lies below the table's horizon alone, consumers what lies below their own, and both what is
        erased."""
        seen, held = _rows_in(self.reading.files(after)), _rows_in(self.reading.all_files(after))
        for number, rows in _rows_in(self.reading.all_files(before)).items():
            where, line = f"{'.'.join(name)} partition {number}", ledger_of(after, number)
            assert line is not None, "nobody takes a line away"
            place = before.properties["floeberg.topic_id"], number
            left = held.get(number, {}).keys() | self.wounds.get(place, {}).keys()
            is_erased = _erased(before, number) != _erased(after, number)
            gone = [
                row
                for offset, row in sorted(rows.items())
                if offset not in left and (is_erased or offset >= min(line.log_start, line.table_start))
            ]
            for text in self.erasures.take(place, gone, before, after, self._now_ms()):
                self.found("lost", None, f"{text} from {where}, {line}")
            hidden = rows.keys() - seen.get(number, {}).keys() - self.wounds.get(place, {}).keys()
            hidden -= self.erasures.of(place).keys()
            if any(offset >= line.table_start for offset in hidden):
                self.found("horizon", None, f"a commit hides offsets {sorted(hidden)} in {where}, {line}")
        self._none_again(name, after)
        for number, visible in seen.items():
            line = ledger_of(after, number)
            assert line is not None, "what a table holds has a line"
            shown = sorted(offset for offset in visible if offset < line.table_start)
            if shown:
                self.found("horizon", None, f"{shown} are visible in {'.'.join(name)} partition {number}, {line}")

    def look_again(self, topic_id: str) -> None:
        """An erasure says that it has ended."""
        for name, metadata in self.reading.tables_of(topic_id):
            if not is_latest(metadata):
                self._none_again(name, metadata)

    def _none_again(self, name: Identifier, metadata: TableMetadata) -> None:
        topic_id = metadata.properties["floeberg.topic_id"]
        for number, rows in _rows_in(self.reading.all_files(metadata)).items():
            again = self.erasures.seen_again((topic_id, number), rows.values())
            if again:
                self.found("erased", None, f"{'.'.join(name)} partition {number} still holds the offsets {again}")

    def on_removal(self, path: str) -> None:
        """A sweep removes a file: no snapshot of any table may name it."""
        for name, metadata in self.reading.tables():
            if path in self.reading.named(metadata):
                self.found("swept", None, f"{path.rpartition('/')[2]}, which {'.'.join(name)} names")

    def table(self, partition: Partition) -> None:
        """All of a partition's rows, its ledger and its digest."""
        found = self._table_of(partition)
        if found is None:
            return
        metadata, line, files = found
        rows = self._rows(partition, files)
        self.audited["table records"] += len(rows)
        self._compare(partition, metadata, line, rows)
        if not self._wounds(partition):
            digest = line.digest_with(digest_of(records_from(rows)) if rows else EMPTY_DIGEST)
            if digest != line.digest:
                self.found("digest", partition, f"the ledger says {line.digest}, the rows give {digest}")

    def is_safe(self, partition: Partition, offsets: OffsetRange, *, dropped: bool) -> None:
        """The broker may drop these offsets, or drops them: each record in them must be in the table, as it was
        written; but what somebody took from the table after the answer is not in our hands."""
        occasion = "dropped locally" if dropped else "answered as copied"
        needed = {
            offset: row
            for offset, row in partition.committed().items()
            if max(offsets.start, partition.log_start) <= offset < offsets.end
        }
        found = self._table_of(partition)
        stored: dict[int, Row] = {}
        if found is not None:
            for file in found[2]:
                stored.update((row.offset, row) for row in file.rows or ())
        self.audited["records dropped by brokers"] += len(needed)
        for offset, row in needed.items():
            if dropped and offset in self._wounds(partition):
                continue
            if stored.get(offset) != row and not self._may_lack(partition, offset):
                self.found("unproven", partition, f"{occasion}: {offsets}, and offset {offset} is not in the table")
                return

    def _may_lack(self, partition: Partition, offset: int) -> bool:
        return offset in partition.compacted or offset in self.erasures.of(_place(partition))

    def ledger_end(self, partition: Partition) -> int | None:
        lines = [ledger_of(metadata, partition.who.partition) for _, metadata in self._tables(partition)]
        return next((line.end for line in lines if line is not None), None)

    def served(self, partition: Partition, door: LogDoorBackend, dice: random.Random) -> None:
        """What the door gives for the whole ledger range, for parts of it, and from the middle of parts."""
        found = self._table_of(partition)
        if found is None:
            return
        line = found[1]
        lowest = max(line.start, line.log_start)
        if lowest >= line.end:
            return
        ranges = [(lowest, line.end, lowest)]
        for _ in range(2):
            start, end = (
                sorted(dice.sample(range(lowest, line.end + 1), 2)) if line.end > lowest else (lowest, line.end)
            )
            ranges.append((start, end, dice.randrange(start, end)))
        stored = {row.offset: row for file in found[2] for row in file.rows or ()}
        # What somebody took away may be refused, or served as it was from an older snapshot; never left out.
        stored |= {
            offset: row
            for offset, row in partition.committed().items()
            if self._wounds(partition).get(offset) and offset not in stored
        }
        for start, end, begin in ranges:
            self._serve(partition, door, stored, OffsetRange(start=start, end=end), begin, dice)

    def _serve(
        self,
        partition: Partition,
        door: LogDoorBackend,
        stored: dict[int, Row],
        offsets: OffsetRange,
        begin: int,
        dice: random.Random,
    ) -> None:
        segment = RemoteSegment(topic_id=partition.who.topic_id, partition=partition.who.partition, range=offsets)
        may_fail = any(offset in offsets for offset in self._wounds(partition))
        got: list[Row] = []
        at = begin
        try:
            while at < offsets.end:
                for batch in door.records(segment, start=at, max_bytes=dice.choice((1, 300, 1 << 20))):
                    header = parse_header(batch)
                    base = header.base_offset
                    if base != at:
                        self.found("door", partition, f"{offsets} from {begin}: a batch begins at {base}, not at {at}")
                        return
                    rows = parse_batch(bytes(batch))
                    if not rows or rows[-1].offset != header.last_offset:
                        # Some clients go on after the last record, not after the batch.
                        self.found("door", partition, f"{offsets} from {begin}: no record ends the batch at {base}")
                        return
                    got.extend(() if header.attributes & CONTROL_FLAG else rows)
                    at = header.next_offset
        except NoSuchSegment:
            return
        except FloebergError as error:
            if not (may_fail and isinstance(error, Corrupt)):
                self.found("door", partition, f"{offsets} from {begin} can't be read: {error}")
            return
        self.audited["door records"] += len(got)
        old = self.erasures.still_served(_place(partition), self._now_ms())
        got = [row for row in got if row.offset not in old or row.offset in stored]
        expected = [row for offset, row in sorted(stored.items()) if begin <= offset < offsets.end]
        for index in range(max(len(got), len(expected))):
            served = got[index] if index < len(got) else None
            row = expected[index] if index < len(expected) else None
            if served != row:
                self.found("door", partition, f"{offsets} from {begin}: served {_brief(served)}, stored {_brief(row)}")
                return

    def _table_of(self, partition: Partition) -> tuple[TableMetadata, LedgerLine, list[StoredFile]] | None:
        for _, metadata in self._tables(partition):
            line = ledger_of(metadata, partition.who.partition)
            if line is not None:
                files = [file for file in self.reading.all_files(metadata) if file.partition == partition.who.partition]
                return metadata, line, files
        return None

    def _tables(self, partition: Partition) -> list[tuple[Identifier, TableMetadata]]:
        tables = [one for one in self.reading.tables_of(partition.who.topic_id) if not is_latest(one[1])]
        if len(tables) > 1:
            self.found("doubled", partition, f"two tables: {[name for name, _ in tables]}")
        return tables

    def _rows(self, partition: Partition, files: Iterable[StoredFile]) -> list[Row]:
        """All rows in offset order, as files hold them."""
        paths = Counter(file.path for file in files)
        for path, count in paths.items():
            if count > 1:
                self.found("doubled", partition, f"the table names {count} times {path.rpartition('/')[2]}")
        rows: list[Row] = []
        for file in sorted(files, key=lambda file: parse_file_name(file.path).range):
            if file.rows is None:
                self.found("lost", partition, f"{file.path.rpartition('/')[2]} is missing or not readable")
                continue
            offsets = [row.offset for row in file.rows]
            if offsets != sorted(offsets):
                self.found("order", partition, f"{file.path.rpartition('/')[2]} has the offsets {offsets}")
            rows.extend(file.rows)
        return rows

    def _compare(self, partition: Partition, metadata: TableMetadata, line: LedgerLine, rows: list[Row]) -> None:
        committed = partition.committed()
        seen: dict[int, Row] = {}
        for row in rows:
            if row.offset in seen:
                self.found("doubled", partition, f"offset {row.offset}")
            seen[row.offset] = row
            expected = committed.get(row.offset)
            if not line.start <= row.offset < line.end:
                self.found("ledger", partition, f"offset {row.offset} is stored, the ledger is {line.start}-{line.end}")
            if expected is None:
                self.found("invented", partition, f"offset {row.offset} was never committed: {_brief(row)}")
            elif expected != row:
                self.found("altered", partition, f"stored {_brief(row)}, written {_brief(expected)}")
        if line.end > partition.high_watermark:
            self.found("ledger", partition, f"it ends at {line.end}, and {partition.high_watermark} is replicated")
        skipped = ranges_of(metadata, "skipped", partition.who.partition)
        for start, end in skipped:
            if end > partition.log_start and not partition.is_deleted:
                self.found(
                    "lost", partition, f"{start}-{end} was skipped, and Kafka has all from {partition.log_start}"
                )
        if line.start > partition.log_start and not partition.is_deleted:
            self.found("lost", partition, f"the table begins at {line.start}, Kafka has all from {partition.log_start}")
        if line.log_start > partition.log_start and not partition.is_deleted:
            self.found("horizon", partition, f"the stream begins at {line.log_start}, Kafka's at {partition.log_start}")
        for offset in committed:
            is_due = line.held_start <= offset < line.end and offset not in seen
            excused = (
                self._may_lack(partition, offset)
                or offset in self._wounds(partition)
                or any(start <= offset < end for start, end in skipped)
            )
            if is_due and not excused:
                self.found(
                    "lost", partition, f"offset {offset} is not in the table, which covers {line.start}-{line.end}"
                )

    def wound(self, partition: Partition, metadata: TableMetadata, path: str) -> None:
        """Somebody takes a file from the table: its offsets can't be served any more, and must not seem to be."""
        rows = next(file.rows for file in self.reading.files(metadata) if file.path == path)
        held = {row.offset for row in rows or ()}
        offsets = parse_file_name(path).range
        wounds = self.wounds.setdefault(_place(partition), {})
        wounds.update({offset: offset in held for offset in range(offsets.start, offsets.end)})

    def _wounds(self, partition: Partition) -> dict[int, bool]:
        return self.wounds.get(_place(partition), {})


def _place(partition: Partition) -> Place:
    return partition.who.topic_id, partition.who.partition


def _erased(metadata: TableMetadata, number: int) -> str | None:
    """What the table remembers of its erasures."""
    return metadata.properties.get(f"floeberg.erased.{number}")


def _rows_in(files: Iterable[StoredFile]) -> dict[int, dict[int, Row]]:
    """By partition and offset."""
    found: dict[int, dict[int, Row]] = {}
    for file in files:
        found.setdefault(file.partition, {}).update((row.offset, row) for row in file.rows or ())
    return found


def _brief(row: Row | None) -> str:
    if row is None:
        return "nothing"
    return (
        f"offset {row.offset} epoch {row.leader_epoch} time {row.timestamp_ms}/{row.timestamp_type} key {row.key!r} "
        f"value {row.value!r} headers {row.headers!r}"
    )
