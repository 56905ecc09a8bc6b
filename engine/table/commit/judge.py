"""Decides whether a table may be built upon: it is the one that is meant, and its state Floeberg's own or proven whole.

The one that is meant is the cluster's, the topic's, of the layout and the format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from pkgutil import resolve_name

import structlog
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform

from engine.clock import Clock
from engine.errors import CommitUnknown, Corrupt, Invalid
from engine.formats.codec import CodecSpec
from engine.formats.format_facts import FORMATS
from engine.table.columns import TableLayout
from engine.table.commit.change import SnapshotUpdate
from engine.table.commit.transaction import CommitConflict, TableTransaction
from engine.table.data_file import data_folder
from engine.table.foreign.examination import GatherAll, prove_unbroken
from engine.table.loading import TableLoader
from engine.table.properties import (
    CLUSTER_ID_PROPERTY,
    KIND_PROPERTY,
    LATEST_KIND,
    TOPIC_ID_PROPERTY,
    TOPIC_PROPERTY,
)
from engine.table.seal import schema_seal_property
from engine.table.sealed_snapshot import AppendFiles
from engine.table.topic_table import SOMEBODY_ELSE, ForeignChange, TopicTable

JUDGED_AGAIN_MS = 30_000
"""A state that was found broken is looked through again after this long: a file may have been put back."""

ADOPTED_SUMMARY = "floeberg.adopted"
"""In a snapshot's summary: whose change it seals."""

_SNAPSHOTS_TOLD = 8

log = structlog.get_logger(__name__)


def topic_id_of(table: Table) -> str:
    """Raises Invalid for a table that is not a topic's."""
    topic_id: str | None = table.metadata.properties.get(TOPIC_ID_PROPERTY)
    if topic_id is None:
        raise Invalid(
            f"the table {'.'.join(table.name())} exists and is not a topic's",
            next_step="rename that table, or set another namespace",
        )
    return topic_id


def check_same(
    view: TopicTable, cluster_id: str, layout: TableLayout, codec: CodecSpec, key_codec: CodecSpec | None
) -> None:
    """That a topic's table is the one the settings ask for. Raises Invalid."""
    if view.cluster_id != cluster_id:
        raise Invalid(
            f"the topic's table belongs to the cluster {view.cluster_id}, not {cluster_id}",
            topic=view.topic,
            next_step="set another namespace for this cluster",
        )
    check_settings(view, layout, codec, key_codec)


def check_settings(view: TopicTable, layout: TableLayout, codec: CodecSpec, key_codec: CodecSpec | None) -> None:
    """That the settings keep a topic as its table was made to. Raises Invalid, naming those that differ."""
    made = _settings(view.layout, view.codec, view.key_codec)
    wanted = _settings(layout, codec, key_codec)
    differing = [name for name in wanted if name in made and made[name].meaning != wanted[name].meaning]
    if differing:
        ends = (
            f"drop the table (floeberg table drop {view.topic}): a new one begins with the records that Kafka still has"
        )
        if all(name in {"value", "unwrap"} or name.startswith(f"{codec.name}.") for name in differing):
            ends = f"give the table the format that they say: floeberg table retype {view.topic}"
        raise Invalid(
            f"the settings say {_in_words(wanted, differing)}, the topic's table was made for "
            f"{_in_words(made, differing)}",
            topic=view.topic,
            next_step=f"set {' and '.join(differing)} back and restart the daemon, or {ends}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    """What a setting means, and how it is written; None where it is not set."""

    meaning: object
    text: str | None

    @classmethod
    def plain(cls, text: str | None) -> _Setting:
        return cls(meaning=text, text=None if text is None else f'"{text}"')


def _settings(layout: TableLayout, codec: CodecSpec, key_codec: CodecSpec | None) -> dict[str, _Setting]:
    """The settings needed to reproduce rows, under their own names: with others the bytes would come back wrong."""
    found = {
        "value": _Setting.plain(codec.name),
        "key": _Setting.plain(layout.key),
        "column_prefix": _Setting.plain(layout.prefix),
        "unwrap": _Setting.plain(codec.options.get("unwrap")),
    }
    for prefix, spec in (("", codec), ("key_", key_codec)):
        facts = None if spec is None else FORMATS.get(spec.name)
        if spec is None or facts is None or facts.options is None:
            continue
        parsed = resolve_name(facts.options).of(spec.options)
        for option in fields(parsed):
            meaning = getattr(parsed, option.name)
            said = _Setting.plain(meaning.name.lower() if isinstance(meaning, Enum) else meaning)
            if option.name == facts.columns_option:
                said = _Setting(meaning=meaning, text=spec.options.get(option.name, "[]"))
            found[f"{prefix}{facts.name}.{option.name}"] = said
    return found


def _in_words(settings: Mapping[str, _Setting], names: Sequence[str]) -> str:
    said = (f"no {name}" if settings[name].text is None else f"{name} = {settings[name].text}" for name in names)
    return " and ".join(said)


def check_older_incarnation(table: Table, topic: str, cluster_id: str) -> None:
    """That the table in the way of a new one is an earlier incarnation's of the topic. Raises Invalid."""
    properties = table.metadata.properties
    owner, owners_cluster = properties.get(TOPIC_PROPERTY), properties.get(CLUSTER_ID_PROPERTY)
    if owner != topic or owners_cluster != cluster_id:
        is_renamed = owners_cluster == cluster_id
        raise Invalid(
            f"the table {'.'.join(table.name())} belongs to the topic {owner} of the cluster {owners_cluster}",
            topic=topic,
            next_step=f"give it another name: floeberg table rename {owner} NAME"
            if is_renamed
            else "set another namespace for this cluster",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    metadata_location: str
    error: Corrupt
    judged_ms: int


class TableJudge:
    """Of one table. For one thread at a time."""

    def __init__(self, loader: TableLoader, clock: Clock, gather: GatherAll) -> None:
        self._loader = loader
        self._clock = clock
        self._gather = gather
        self._broken: _Verdict | None = None
        self._seen: str | None = None

    def note_present(self, table: Table) -> None:
        """This process has seen the topic's table."""
        self._seen = table.metadata_location

    def check_absent(self, topic: str, topic_id: str, location: str | None) -> None:
        """Raises Corrupt when a topic without a table had one: it was dropped, and must not begin again by itself.

        ``location`` where its table would lie, None where the catalog alone knows.
        """
        folder = None if location is None else data_folder(location, topic_id)
        if self._seen is None and (folder is None or next(iter(self._loader.warehouse.list(folder)), None) is None):
            return
        found = self._seen or f"the newest .metadata.json below {location}"
        raise Corrupt(
            f"{SOMEBODY_ELSE}: it was dropped, or another table has its name, and files of its records are left",
            topic=topic,
            file=location,
            next_step=f"register it again (CALL system.register_table, metadata_file {found}), then floeberg fsck "
            f"{topic}; to begin from nothing instead, remove the folder and start Floeberg again",
        )

    def adopt_if_intact(self, table: Table) -> TopicTable:
        """The table's view; a state that somebody else changed without loss is sealed again first, by a commit.

        Raises Corrupt, naming what was changed and the next step, Unavailable, CommitConflict (somebody was quicker).
        """
        view = self._loader.view(table)
        if view.foreign is None:
            return view
        verdict, now_ms = self._broken, self._clock.monotonic_ms()
        is_known = verdict is not None and verdict.metadata_location == table.metadata_location
        if verdict is not None and is_known and now_ms - verdict.judged_ms < JUDGED_AGAIN_MS:
            raise verdict.error
        try:
            properties = prove_unbroken(table, view, view.foreign, self._gather)
        except Corrupt as error:
            self._broken = _Verdict(metadata_location=table.metadata_location, error=error, judged_ms=now_ms)
            log.error(
                "foreign_change_breaks_the_stream", topic=view.topic, change=str(view.foreign), problem=str(error)
            )
            raise
        transaction = TableTransaction(table, self._clock.now_ms())
        sealed_as = transaction.stage_snapshot(AppendFiles, [_adoption(table, view.foreign, properties)])
        try:
            transaction.commit_once()
        except CommitUnknown as error:
            raise CommitConflict(f"the adoption was not answered: {error.problem}", topic=view.topic) from error
        self._broken = None
        log.warning("foreign_change_adopted", topic=view.topic, change=str(view.foreign), sealed_as=sealed_as)
        return self._loader.view(table)


class LatestJudge(TableJudge):
    """Of a ``__latest`` table, which is made of the topic's own and can be made again: what somebody else changed is
    not adopted, and nobody mourns a table that was dropped."""

    def check_absent(self, topic: str, topic_id: str, location: str | None) -> None:
        """It may begin again."""

    def adopt_if_intact(self, table: Table) -> TopicTable:
        """The view, with what was changed: whoever commits to it knows what to do.

        Raises Invalid (another kind of table has the name), Corrupt (what no new snapshot mends).
        """
        if table.metadata.properties.get(KIND_PROPERTY) != LATEST_KIND:
            raise Invalid(
                f"the table {'.'.join(table.name())} is a topic's own, and the name of the newest records of another's",
                next_step="set latest_by_key = false for that other topic, or another namespace for one of the two",
            )
        view = self._loader.view(table)
        by = [(field.source_id, field.transform) for field in table.spec().fields]
        if by != [(view.iceberg_schema.find_field(view.layout.partition).field_id, IdentityTransform())]:
            raise Corrupt(
                f"{SOMEBODY_ELSE}: it is partitioned by {table.spec()}, no longer by {view.layout.partition}",
                topic=view.topic,
                file=".".join(view.identifier),
                next_step="drop it, without purging its files: it is built again",
            )
        return view


def _adoption(table: Table, change: ForeignChange, properties: dict[str, str]) -> SnapshotUpdate:
    """An empty snapshot, whose summary names theirs. ``properties`` what was found out of the files and the columns."""
    told = ", ".join(map(str, change.snapshots[-_SNAPSHOTS_TOLD:]))
    return SnapshotUpdate(
        summary={ADOPTED_SUMMARY: told or "columns"},
        properties={**properties, **schema_seal_property(table.metadata)},
    )
