"""A case as it was played: a topic of its own, the first version alone in the oldest file, each further one in a file
with those before it, which come before and behind it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from structlog.testing import capture_logs

from tests.evolution.case import Case, Version
from tests.evolution.evolving_topic import EvolvingTopic, Warehouse, avro, framed_json
from tests.evolution.protobuf_values import descriptor_text, framed_protobuf


class PlayedCase:
    """``versions`` of the records in offset order; ``conflicts`` how many were reported."""

    def __init__(self, warehouse: Warehouse, case: Case) -> None:
        self.case = case
        self._text, self._encode = FORMATS[case.codec]
        self.topic = EvolvingTopic(warehouse, topic_of(case), codec=case.codec, options=case.options)
        self.versions: list[Version] = []
        self.conflicts = 0
        for count in range(1, len(case.versions) + 1):
            with capture_logs() as logs:
                self.topic.add(count, self._text(case.versions[count - 1].schema))
            self.conflicts += sum(line["event"] == "schema_conflict" for line in logs)
            self._tier([*range(count), *reversed(range(count))])

    def _tier(self, indices: list[int]) -> None:
        versions = [self.case.versions[index] for index in indices]
        pairs = zip(versions, indices, strict=True)
        self.topic.tier([self._encode(version.schema, index + 1, version.value) for version, index in pairs])
        self.versions += versions

    def plain_rows(self) -> list[Any]:
        """What the rows must be, as engines give them: maps are dictionaries."""
        return [_plain(version.row) for version in self.versions]


FORMATS: Mapping[str, tuple[Callable[[Any], str], Callable[[Any, int, Any], bytes]]] = {
    "avro": (json.dumps, avro),
    "json": (json.dumps, framed_json),
    "protobuf": (descriptor_text, framed_protobuf),
}
"""By the codec's name: a schema as the table keeps it, and a value as a producer writes it."""


def topic_of(case: Case) -> str:
    return re.sub(r"[^a-z0-9]+", "_", str(case).lower())


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        is_map = bool(value) and all(isinstance(item, tuple) for item in value)
        return {key: _plain(inner) for key, inner in value} if is_map else [_plain(inner) for inner in value]
    return value
