"""A topic rule's schemas from a registry: asked for at the desk of that registry, found by the rule's subjects."""

from __future__ import annotations

from engine.errors import Invalid, Unavailable
from engine.schemas.desk import SchemaDesk
from engine.schemas.http import Absent
from engine.schemas.registry import SchemaRegistry
from engine.schemas.source import FoundSchema, Role
from engine.schemas.subjects import SubjectRule

NEWEST_KEPT_MS = 60_000  # longer than who did not wait for an answer takes to come again


class RegistrySchemas:
    """Rules that use one registry share ``registry`` and ``desk``, and differ in their ``subjects``."""

    def __init__(self, registry: SchemaRegistry, desk: SchemaDesk, subjects: SubjectRule | None = None) -> None:
        self._registry = registry
        self._desk = desk
        self._subjects = subjects or SubjectRule()

    def get(self, schema_id: int, schema_format: str) -> str:
        """As the port says. What the registry said before stands in for one that does not answer, or has lost it."""
        try:
            return self._desk.ask(
                ("schema", schema_id, schema_format),
                lambda: self._registry.get(schema_id, schema_format),
                kept_ms=None,
            )
        except (Unavailable, Absent):
            remembered = self._registry.remembered(schema_id, schema_format)
            if remembered is None:
                raise
            return remembered

    def newest(self, topic: str, role: Role, schema_format: str) -> tuple[FoundSchema, ...]:
        """As the port says. What is newest is never remembered."""
        return self._desk.ask(
            ("newest", topic, role, schema_format, self._subjects.key),
            lambda: self._newest(topic, role, schema_format),
            kept_ms=NEWEST_KEPT_MS,
        )

    def close(self) -> None:
        self._desk.close()

    def _newest(self, topic: str, role: Role, schema_format: str) -> tuple[FoundSchema, ...]:
        subjects = self._subjects.subjects(topic, role, lambda: self._registry.subjects(f"{topic}-"))
        found: list[FoundSchema] = []
        refused: Invalid | None = None
        for subject in subjects:
            try:
                schema = self._registry.newest(subject, self._subjects.metadata, schema_format)
            except Invalid as error:
                # Of another type, or broken: no reason to do without the others.
                refused = error
                continue
            if schema is not None:
                found.append(schema)
        if refused is not None and not found:
            raise refused
        return tuple(found)
