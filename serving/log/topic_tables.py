"""Tables by their topics' ids: the plugin knows a topic by its id, the table writer by both id and name."""

from __future__ import annotations

from collections.abc import Callable

from engine.table.table_writer import TableWriter
from engine.table.topic_table import TopicTable


class TopicTables:
    """``topic_of`` gives the name of a topic id as the daemon last saw it at the broker; None while it never did."""

    def __init__(self, writer: TableWriter, *, topic_of: Callable[[str], str | None]) -> None:
        self._writer = writer
        self._topic_of = topic_of

    def load(self, topic_id: str) -> TopicTable | None:
        """The newest committed state; None while the topic is unknown or has no table. Raises Unavailable."""
        topic = self._topic_of(topic_id)
        return None if topic is None else self._writer.open(topic, topic_id)
