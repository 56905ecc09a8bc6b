"""Finds the tables whose topics the broker has no more, notes since when, and drops those that are not to be kept
(docs/retention.md).

Any daemon of the cluster does: what one has dropped the others find gone. Each counts the grace by its own notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import structlog
from pyiceberg.catalog import Catalog

from engine.broker import Broker
from engine.clock import Clock
from engine.errors import Corrupt, FloebergError, Unavailable
from engine.table.catalog import access as catalogs
from engine.table.catalog.access import Identifier
from engine.table.properties import CLUSTER_ID_PROPERTY, KIND_PROPERTY, TOPIC_ID_PROPERTY, TOPIC_PROPERTY
from retention.clock_jumps import ClockJumps
from retention.gone_store import GoneNotes, GoneStore
from retention.gone_topics import GRACE, BrokersWord, SeenHere, StoredTopic, is_there, reasons_to_doubt, reasons_to_keep
from retention.sweep_limits import SweepLimits
from retention.swept_table import SweptTable, kept_because
from retention.table_drop import DroppedTable, drop, retire, tables_of, to_drop
from topics.gone_topic_status import GoneTopicStatus
from topics.topic_rule import TopicRule, rule_of

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneTable:
    """A topic's own table that is in the catalog although the broker has its topic no more; ``state`` the metadata file
    that the catalog names."""

    name: Identifier
    stored: StoredTopic
    state: str


class GoneTopicWatch:
    """``look``, ``hold`` and ``forget`` are for one thread; the rest for any."""

    def __init__(
        self,
        *,
        broker: Broker,
        catalog: Catalog,
        namespace: str,
        rules: Sequence[TopicRule],
        clock: Clock,
        limits: SweepLimits,
        folder: Path,
        here: Callable[[], SeenHere],
    ) -> None:
        """``folder`` is where notes are kept; ``here`` tells what the last cycle of tiering saw."""
        self._broker = broker
        self._catalog = catalog
        self._namespace = tuple(namespace.split("."))
        self._rules = tuple(rules)
        self._clock = clock
        self._limits = limits
        self._store = GoneStore(folder)
        self._notes: GoneNotes | None = None
        self._jumps = ClockJumps(clock)
        self._here = here
        self._tables: dict[Identifier, GoneTable] = {}
        self._others: set[Identifier] = set()
        self._heard: tuple[BrokersWord, SeenHere] | None = None
        self._report: tuple[GoneTopicStatus, ...] = ()
        self.tables: tuple[GoneTable, ...] = ()
        """As of the last look, those of topics that are gone without doubt, and whose tables are in the catalog."""

    def report(self) -> tuple[GoneTopicStatus, ...]:
        """Each table whose topic seems to be gone, by topic, as of the last look."""
        return self._report

    @property
    def dropped(self) -> tuple[DroppedTable, ...]:
        """Tables that were dropped, and whose files are not all gone."""
        return () if self._notes is None else tuple(self._notes.dropped.values())

    def look(self) -> None:
        """Ask broker and catalog; note what is gone, and drop what may go. Raises Unavailable, Corrupt, Invalid."""
        here, notes = self._here(), self._known_notes()
        self._heard = None
        names = catalogs.table_names(self._catalog, self._namespace)
        self._others &= set(names)
        known = (self._tables.get(name) or self._loaded(name) for name in names)
        tables = {table.name: table for table in known if table is not None}
        word = self._ask(tables.values(), notes)
        self._tables = {name: table for name, table in tables.items() if is_there(table.stored, word)}
        # A name may stand for another table by now.
        loaded = (self._loaded(name) for name in tables.keys() - self._tables.keys())
        missing = [table for table in loaded if table is not None and table.stored.cluster_id == word.cluster_id]
        missing = sorted((one for one in missing if not is_there(one.stored, word)), key=lambda one: one.name)
        self._noted(missing, word, here)
        self._heard = word, here
        sure = [one for one in missing if not any(reasons_to_doubt(one.stored, word, here))]
        self.tables = tuple(sure)
        reports = [report for one in missing if (report := self._seen_to(one, word, here)) is not None]
        self._report = (*reports, *map(_report_of, self.dropped))

    def hold(self, dropped: DroppedTable) -> str | None:
        """Why no file of a dropped table is removed now; None where its own grace alone decides."""
        rule = rule_of(dropped.topic, self._rules)
        if rule is None or not rule.drops_with_topic:
            return "the settings keep the tables of deleted topics now: register it again, or remove its folder"
        if self._heard is None:
            return "the broker or the catalog gave no answer the last time"
        topic = StoredTopic(
            topic=dropped.topic, topic_id=dropped.topic_id, cluster_id=dropped.cluster_id, is_retired=True
        )
        return next(reasons_to_doubt(topic, *self._heard), None)

    def forget(self, dropped: DroppedTable) -> None:
        """Its files are gone. Raises Unavailable."""
        notes = self._known_notes()
        self._save(replace(notes, dropped={key: one for key, one in notes.dropped.items() if key != dropped.key}))

    def _known_notes(self) -> GoneNotes:
        if self._notes is None:
            self._notes = self._store.load()
        ahead_ms = self._jumps.ahead_ms()
        if ahead_ms:
            since_ms = {topic_id: noted_ms + ahead_ms for topic_id, noted_ms in self._notes.since_ms.items()}
            self._save(replace(self._notes, since_ms=since_ms))
        return self._notes

    def _save(self, notes: GoneNotes) -> None:
        if notes != self._notes:
            self._store.save(notes)
            self._notes = notes

    def _loaded(self, name: Identifier) -> GoneTable | None:
        """None for a table that is not a topic's own, or that can't be read: nobody drops that."""
        if name in self._others:
            return None
        try:
            table = catalogs.load(self._catalog, name)
        except Corrupt:
            return None
        if table is None:
            return None
        properties = table.metadata.properties
        wanted = (TOPIC_PROPERTY, TOPIC_ID_PROPERTY, CLUSTER_ID_PROPERTY)
        if KIND_PROPERTY in properties or not all(key in properties for key in wanted):
            self._others.add(name)
            return None
        topic, topic_id, cluster_id = (properties[key] for key in wanted)
        is_retired = catalogs.is_retired(name, topic_id)
        stored = StoredTopic(topic=topic, topic_id=topic_id, cluster_id=cluster_id, is_retired=is_retired)
        return GoneTable(name=name, stored=stored, state=table.metadata_location)

    def _ask(self, tables: Iterable[GoneTable], notes: GoneNotes) -> BrokersWord:
        asked = {*(table.stored.topic for table in tables), *(one.topic for one in notes.dropped.values())}
        ids = self._broker.topic_ids(sorted(asked))
        are_there = any(topic_id is not None for topic_id in ids.values())
        return BrokersWord(
            cluster_id=self._broker.cluster_id(),
            topic_ids=ids,
            has_topics=are_there or bool(asked and self._broker.topic_names()),
        )

    def _noted(self, missing: Sequence[GoneTable], word: BrokersWord, here: SeenHere) -> None:
        """What was noted before of topics that are still away, and those that are so now for the first time."""
        notes, now_ms = self._known_notes(), self._clock.now_ms()
        away = {one.stored.topic_id: one.stored for one in missing}
        since_ms = {key: noted_ms for key, noted_ms in notes.since_ms.items() if key in away}
        for topic_id, stored in away.items():
            # One of a time to come was by a clock that has gone back since.
            if since_ms.get(topic_id, now_ms + 1) > now_ms and not any(reasons_to_doubt(stored, word, here)):
                since_ms[topic_id] = now_ms
                _log.warning("topic_gone", topic=stored.topic, topic_id=topic_id)
        self._save(replace(notes, since_ms=since_ms))

    def _seen_to(self, gone: GoneTable, word: BrokersWord, here: SeenHere) -> GoneTopicStatus | None:
        """Drop the table, where nothing speaks against it; else say why it stays."""
        since_ms = self._known_notes().since_ms.get(gone.stored.topic_id)
        reasons = self._reasons(gone.stored, word, here)
        try:
            if not reasons:
                # What costs a look at the table's folder comes last.
                state = self._swept_table(gone.stored).load()
                reasons = self._reasons(replace(gone.stored, held=kept_because(state)), word, here)
            if not reasons:
                self._drop(gone.stored)
                return None
        except FloebergError as error:
            _log.warning("gone_topics_table_not_dropped", topic=gone.stored.topic, error=str(error))
            reasons = [f"it can't be dropped now: {error}"]
        is_waiting = reasons == [GRACE] and since_ms is not None
        return GoneTopicStatus(
            topic=gone.stored.topic,
            topic_id=gone.stored.topic_id,
            table=".".join(gone.name),
            since_ms=since_ms,
            kept=None if is_waiting else "; ".join(one for one in reasons if one != GRACE),
            drops_at_ms=since_ms + self._limits.grace_ms if is_waiting and since_ms is not None else None,
        )

    def _reasons(self, stored: StoredTopic, word: BrokersWord, here: SeenHere) -> list[str]:
        return list(
            reasons_to_keep(
                stored,
                word,
                here,
                rule=rule_of(stored.topic, self._rules),
                since_ms=self._known_notes().since_ms.get(stored.topic_id),
                now_ms=self._clock.now_ms(),
                grace_ms=self._limits.grace_ms,
            )
        )

    def _swept_table(self, stored: StoredTopic) -> SweptTable:
        namespace = ".".join(self._namespace)
        return SweptTable(self._catalog, namespace, stored.topic, stored.topic_id, is_latest=False)

    def _drop(self, stored: StoredTopic) -> None:
        """Note where the files lie, then take the names out of the catalog: killed in between, the next look goes on.
        Raises Unavailable, Corrupt, Invalid (another table lies there)."""
        place = ".".join(self._namespace), stored.topic, stored.topic_id
        for table in tables_of(self._catalog, *place):
            retire(self._catalog, table, stored.topic_id)
        tables = tables_of(self._catalog, *place)
        plain = [one for one in tables if not catalogs.is_retired(tuple(one.name()), stored.topic_id)]
        if plain:
            raise Unavailable("the table has not taken the name with its topic's id", file=".".join(plain[0].name()))
        dropped = to_drop(self._catalog, stored.topic, stored.topic_id, tables)
        notes = self._known_notes()
        self._save(replace(notes, dropped={**notes.dropped, **{one.key: one for one in dropped}}))
        drop(self._catalog, dropped)
        for one in dropped:
            _log.warning(
                "gone_topics_table_dropped", topic=one.topic, table=one.table, location=one.location,
                metadata_file=one.metadata_location, files_stay_ms=self._limits.grace_ms,
            )  # fmt: skip


def _report_of(dropped: DroppedTable) -> GoneTopicStatus:
    return GoneTopicStatus(topic=dropped.topic, topic_id=dropped.topic_id, table=dropped.table, is_dropped=True)
