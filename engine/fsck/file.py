"""Checks one data file against its name, its footer and the manifest, from its own bytes and rows.

Every byte is compared with its checksum, every row is read, turned back into the record it was made from and digested,
and what footer, page headers, page index and manifest say is compared with the rows: nothing that was written down
beside them is taken for granted. Files of earlier versions have no checksums of their bytes; that is no finding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import FloebergError, Invalid, Unavailable
from engine.fsck.report import Damage, Finding
from engine.offset_range import OffsetRange
from engine.parquet.footer import ParquetFooter
from engine.parquet.ranged_file import RangedFile
from engine.records.digest import RangeDigest
from engine.records.records import Records
from engine.table.data_file import FileFooter, FileName, parse_file_name
from engine.table.manifests import TableFile
from engine.table.proof.file_claims import FileClaims
from engine.table.proof.leaf_facts import Leaf, LeafClaim, LeafFacts, false_claims
from engine.table.proof.row_order import OffsetOrder, SortOrder
from engine.table.proof.verification import check_magic, open_rows, opened
from engine.table.rows.rows import RowCodecs, records_from_rows
from engine.table.topic_table import TableFacts

_RESTORE = "restore the file from a copy of the warehouse, or tier its offsets again while the broker has them"
_REWRITE = "rewrite the manifest entry from the file: SQL engines may return too few rows until then"
_MOST_FALSE_CLAIMS = 5
"""Sentences about one file's columns in a finding; a manifest entry of another file is false in all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFile:
    """A data file as the table's manifests name it; ``claims`` by field id; ``footer_checksum`` may be None."""

    path: str
    partition: int
    record_count: int
    size_bytes: int
    claims: Mapping[int, LeafClaim]
    footer_checksum: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFile:
    """What a file turned out to be.

    ``range`` its name's, None for a file that is not ours; ``digest`` what its footer says its records are, None where
    there is no footer to trust; ``is_sound`` when every check of the file alone passed. ``adopted``: this stands for a
    range whose files another program wrote, ``listed`` then names the first of them.
    """

    listed: ListedFile
    range: OffsetRange | None
    digest: RangeDigest | None
    findings: tuple[Finding, ...]
    adopted: TableFile | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.listed.path,) if self.adopted is None else tuple(part.path for part in self.adopted.parts)

    @property
    def is_sound(self) -> bool:
        return not self.findings


def check_file(table: TableFacts, listed: ListedFile) -> CheckedFile:
    """Read a file whole and say what is wrong with it. Raises Unavailable when the warehouse does not answer."""
    check = _FileCheck(table=table, listed=listed)
    try:
        name = parse_file_name(listed.path)
    except Invalid as error:
        check.found(Damage.FOREIGN_FILE, error.problem, "remove it from the table, or keep it in a table of its own")
        return check.result(None, None)
    check.range = name.range
    try:
        return check.result(name.range, check.run(name))
    except Unavailable:
        raise
    except FloebergError as error:
        check.found(Damage.DAMAGED_FILE, error.problem, error.next_step or _RESTORE)
        return check.result(name.range, check.footer_digest)


@dataclass(slots=True, kw_only=True)
class _FileCheck:
    table: TableFacts
    listed: ListedFile
    range: OffsetRange | None = None
    footer_digest: RangeDigest | None = None
    findings: list[Finding] = field(default_factory=list)

    def found(self, damage: Damage, message: str, next_step: str) -> None:
        finding = Finding(
            damage=damage,
            message=message,
            next_step=next_step,
            topic=self.table.topic,
            partition=self.listed.partition,
            range=self.range,
            file=self.listed.path,
        )
        self.findings.append(finding)

    def result(self, named: OffsetRange | None, digest: RangeDigest | None) -> CheckedFile:
        return CheckedFile(listed=self.listed, range=named, digest=digest, findings=tuple(self.findings))

    def run(self, name: FileName) -> RangeDigest | None:
        """All checks; returns the footer's digest, or None when the file is not the one its name says."""
        if not self.table.warehouse.exists(self.listed.path):
            self.found(Damage.MISSING_FILE, "a file of the table is missing from the warehouse", _RESTORE)
            return None
        size_bytes = self.table.warehouse.size_bytes(self.listed.path)
        if size_bytes != self.listed.size_bytes:
            message = f"the file has {size_bytes} bytes, the manifest says {self.listed.size_bytes}"
            self.found(Damage.WRONG_SIZE, message, _RESTORE)
        source = opened(self.table.warehouse, self.listed.path)
        parsed = source.footer()
        footer = FileFooter.from_key_values(parsed.key_values, file=self.listed.path)
        if self._is_swapped(name, footer) or self._is_another(parsed):
            return None
        self.footer_digest = footer.digest
        check_magic(source)
        self._check_rows(source, parsed, footer)
        return footer.digest

    def _is_another(self, parsed: ParquetFooter) -> bool:
        wanted, found = self.listed.footer_checksum, parsed.checksums
        if wanted is None or (found is not None and found.footer == wanted):
            return False
        said = "none" if found is None else f"{found.footer:08x}"
        message = f"its footer has another checksum, {said}, than the manifest says, {wanted:08x}: it is another file"
        self.found(Damage.SWAPPED_FILE, message, _RESTORE)
        return True

    def _is_swapped(self, name: FileName, footer: FileFooter) -> bool:
        named = (self.table.topic_id, name.partition, name.range)
        written = (footer.topic_id, footer.partition, footer.range)
        if named == written and name.partition == self.listed.partition:
            return False
        message = (
            f"the file's name says offsets {name.range} of partition {name.partition}, its footer offsets "
            f"{footer.range} of partition {footer.partition} of topic {footer.topic} ({footer.topic_id})"
        )
        self.found(Damage.SWAPPED_FILE, message, "put the contents back under the names their footers say")
        return True

    def _check_rows(self, source: RangedFile, parsed: ParquetFooter, footer: FileFooter) -> None:
        codecs = RowCodecs.of(self.table)
        starts = footer.window_starts(len(parsed.group_at), file=self.listed.path)
        rows = _Rows(layout_partition=self.table.layout.partition, footer=footer, order=OffsetOrder(starts=starts))
        untrue: list[str] = []
        source.prove()  # a flipped bit is named before anything decodes it
        every = frozenset(name for name, _ in parsed.top_levels)
        with open_rows(self.table.warehouse, self.listed.path, parsed, closely=every) as file:
            schema = file.metadata.schema.to_arrow_schema()
            claims = FileClaims(source=source, footer=parsed, shown=file.metadata, schema=schema, closely=every)
            order = SortOrder(windows=footer.windows)
            for index in range(len(parsed.group_at)):
                table = file.read_row_group(index, use_threads=False)
                rows.take(table, records_from_rows(self.table.layout, table, codecs))
                untrue += chain(claims.false_in_group(index, table), order.false_in_group(index, table))
            untrue += claims.false_in_file()
        self._judge(rows, footer, untrue, claims.facts)

    def _judge(self, rows: _Rows, footer: FileFooter, untrue: list[str], facts: Mapping[Leaf, LeafFacts]) -> None:
        for message in rows.misplaced:
            self.found(Damage.MISPLACED_ROWS, message, _RESTORE)
        if rows.is_out_of_order:
            message = "its rows are in another order than those that were written: they don't give their digest"
            self.found(Damage.DAMAGED_FILE, message, _RESTORE)
            return
        for who, counted in (("manifest", self.listed.record_count), ("footer", footer.record_count)):
            if counted != rows.digest.record_count:
                message = f"the {who} counts {counted} records, the file has {rows.digest.record_count}"
                self.found(Damage.WRONG_COUNT, message, _RESTORE)
        if rows.digest != footer.digest:
            message = f"its rows have the digest {rows.digest.to_text()}, it was written with {footer.digest.to_text()}"
            self.found(Damage.DAMAGED_FILE, message, _RESTORE)
            return
        self._false_claims("what the file says of itself is not so: ", untrue, _RESTORE)
        self._false_claims("", list(false_claims(facts, self.listed.claims)), _REWRITE)

    def _false_claims(self, said: str, untrue: list[str], next_step: str) -> None:
        if untrue:
            more = len(untrue) - _MOST_FALSE_CLAIMS
            listed = "; ".join(untrue[:_MOST_FALSE_CLAIMS]) + (f"; and {more} more" if more > 0 else "")
            self.found(Damage.FALSE_BOUNDS, said + listed, next_step)


@dataclass(slots=True, kw_only=True)
class _Rows:
    """What the rows of one file add up to."""

    layout_partition: str
    footer: FileFooter
    order: OffsetOrder
    misplaced: list[str] = field(default_factory=list)
    is_out_of_order: bool = False

    @property
    def digest(self) -> RangeDigest:
        return self.order.digest

    def take(self, batch: pa.Table, records: Records) -> None:
        if len(records) == 0 or self.is_out_of_order:
            return
        out_of_order = list(self.order.misplaced(records))
        self.is_out_of_order = bool(out_of_order)
        if self.misplaced:
            return
        self.misplaced += out_of_order
        first, last = int(records.offset.min()), int(records.offset.max())
        if not (self.footer.range.start <= first and last < self.footer.range.end):
            outside = f"rows with offsets {first} to {last} lie outside the file's range {self.footer.range}"
            self.misplaced.append(outside)
        if not pc.all(pc.equal(batch.column(self.layout_partition), self.footer.partition)).as_py():
            self.misplaced.append(f"rows of another partition than {self.footer.partition}")
