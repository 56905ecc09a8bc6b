"""Giving a table's values another format: all its files give their place to others at once, and the columns with them.

The ledger does not change: the records are the same (docs/repair.md, "Another format"). The commit is a fence, too: no
file that was begun before it, and so has the old columns, lands after it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce

from engine.errors import Invalid
from engine.parquet.settings import ENCODINGS_PROPERTY, UNCOMPRESSED_PROPERTY
from engine.records.digest import EMPTY_DIGEST, RangeDigest
from engine.table.commit.change import Change, Decision, SnapshotUpdate
from engine.table.commit.retype_plan import RetypePlan
from engine.table.data_file import FileDescription
from engine.table.foreign.footer_digests import footer_digests
from engine.table.ledger import Outcome, ranges_to_json
from engine.table.manifests import ManifestReader, SnapshotFiles, TableFile
from engine.table.own_columns import columns_property
from engine.table.proof.verifier import VerifiedFile
from engine.table.properties import COLUMNS_PROPERTY, REPLACED_PREFIX, SWEPT_PROPERTY, VALUE_PROPERTIES
from engine.table.seal import GUARD_PREFIX
from engine.table.sealed_snapshot import ReplaceFiles
from engine.table.topic_table import TopicTable

_OF_SCHEMAS = (VALUE_PROPERTIES.schema, VALUE_PROPERTIES.schema_file, VALUE_PROPERTIES.placement)


class FooterDigests:
    """What the footers of a table's files say that their records are; each is read once."""

    def __init__(self) -> None:
        self._known: dict[str, RangeDigest] = {}

    def of(self, table: TopicTable, files: Sequence[TableFile]) -> Mapping[str, RangeDigest]:
        """By path. Raises Corrupt where a footer can't be read, Unavailable."""
        unread = [file for file in files if file.path not in self._known]
        for file, digest in zip(unread, footer_digests(table, unread), strict=True):
            if isinstance(digest, Exception):
                raise digest.located(table.topic, file.partition)
            self._known[file.path] = digest
        return self._known


def covering(
    files: Iterable[TableFile], digests: Mapping[str, RangeDigest], new: Iterable[FileDescription]
) -> tuple[dict[str, tuple[FileDescription, ...]], tuple[TableFile, ...]]:
    """(by the path of each old file what takes its place, the files that nothing does).

    New files take the place of one when they are of its very offsets, one after the other, and together of its records.
    A file that became one with others since they were written again is covered all the same.
    """
    starting: dict[tuple[int, int], list[FileDescription]] = defaultdict(list)
    for one in sorted(new, key=lambda description: description.range.end):
        starting[one.partition, one.range.start].append(one)
    found: dict[str, tuple[FileDescription, ...]] = {}
    left = []
    for file in files:
        at, chain = file.range.start, list[FileDescription]()
        while at < file.range.end:
            fitting = [one for one in starting[file.partition, at] if one.range.end <= file.range.end]
            if not fitting:
                break
            chain.append(fitting[-1])
            at = fitting[-1].range.end
        digest = reduce(RangeDigest.then, (one.digest for one in chain), EMPTY_DIGEST)
        is_same = digest == digests[file.path] and sum(one.record_count for one in chain) == file.record_count
        if chain and at == file.range.end and is_same:
            found[file.path] = tuple(chain)
        else:
            left.append(file)
    return found, tuple(left)


def check_retypable(table: TopicTable, files: SnapshotFiles, plan: RetypePlan) -> None:
    """Raises Invalid where a table can't get the columns of ``plan``, whatever files are written for it."""
    if any(table.adopted.values()) or len(files.whole_own()) < len(files.own):
        raise Invalid(
            "another program rewrote files of the table, which Floeberg does not write again in another format",
            topic=table.topic,
            next_step=f"floeberg compact {table.topic}: it makes them Floeberg's own",
        )
    if table.last_column_id >= plan.first_id:
        raise Invalid(
            f"the table has a column with the id {table.last_column_id}, and the new ones were to begin at "
            f"{plan.first_id}",
            topic=table.topic,
            next_step="begin again",
        )


class RetypeTable(Change):
    """``new`` files are of ``plan``: COMMITTED, or GONE where the table has files whose place none of them takes."""

    producer = ReplaceFiles

    def __init__(self, plan: RetypePlan, new: Sequence[VerifiedFile], digests: FooterDigests) -> None:
        self._plan = plan
        self._new = tuple(one.description for one in new)
        self._manifests = ManifestReader()
        self._digests = digests

    def joins(self, other: Change) -> bool:  # noqa: ARG002 - whatever it is, it was meant for the old columns
        return False

    def decide(self, table: TopicTable) -> Decision:
        """By the table's manifests, and by the footers of all files. Raises Corrupt, Unavailable, Invalid."""
        view = self._plan.view(table)
        if table.iceberg_schema.fields == view.iceberg_schema.fields and table.codec.name == view.codec.name:
            return self._decided_after(table)
        files = self._manifests.files(table)
        check_retypable(table, files, self._plan)
        every = (*files.own, *files.stream)
        taken, left = covering(every, self._digests.of(table, every), self._new)
        if left:
            return Decision(outcomes_if_committed=(Outcome.GONE,), is_refused=True)
        return Decision(outcomes_if_committed=(Outcome.COMMITTED,), update=self._update(table, view, files, taken))

    def _decided_after(self, table: TopicTable) -> Decision:
        """An attempt has landed, maybe unanswered; or over schemas of the old format that were added meanwhile: such a
        commit changes properties alone, and no commit conflicts with it."""
        strange = table.codec.schemas.keys() - self._plan.codec.schemas.keys()
        gone = {f"{prefix}{schema_id}" for prefix in _OF_SCHEMAS for schema_id in strange}
        if not gone:
            return Decision(outcomes_if_committed=(Outcome.COMMITTED,))
        order = self._plan.properties.get(VALUE_PROPERTIES.order)
        update = SnapshotUpdate(
            properties={} if order is None else {VALUE_PROPERTIES.order: order},
            properties_gone=_with_guards(gone if order is not None else {*gone, VALUE_PROPERTIES.order}),
        )
        return Decision(outcomes_if_committed=(Outcome.COMMITTED,), update=update)

    def _update(
        self,
        table: TopicTable,
        view: TopicTable,
        files: SnapshotFiles,
        taken: Mapping[str, tuple[FileDescription, ...]],
    ) -> SnapshotUpdate:
        ranges = defaultdict(list)
        for file in files.own:
            ranges[file.partition].append(file.range)
        properties = {
            **self._plan.properties,
            **columns_property(view.iceberg_schema, view.shown_schema),
            SWEPT_PROPERTY: str(table.sequence_number),
        }
        return SnapshotUpdate(
            summary={f"{REPLACED_PREFIX}{number}": ranges_to_json(found) for number, found in sorted(ranges.items())},
            properties=properties,
            added=tuple(new for file in files.own for new in taken[file.path]),
            removed=files.own,
            came=tuple(new for file in files.stream for new in taken[file.path]),
            left=files.stream,
            schema=view.shown_schema,
            properties_gone=_gone(table, properties),
        )


def _gone(table: TopicTable, properties: Mapping[str, str]) -> frozenset[str]:
    """What the table keeps of its old columns and the writers' schemas, each with its guard."""
    codec = table.codec
    named = {f"{prefix}{schema_id}" for prefix in _OF_SCHEMAS for schema_id in codec.schemas}
    named |= {VALUE_PROPERTIES.order, COLUMNS_PROPERTY, ENCODINGS_PROPERTY, UNCOMPRESSED_PROPERTY}
    return _with_guards(named - properties.keys())


def _with_guards(names: Collection[str]) -> frozenset[str]:
    return frozenset((*names, *(f"{GUARD_PREFIX}{name}" for name in names)))
