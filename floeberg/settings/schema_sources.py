"""The schema sources of the topic rules: rules that use one registry ask it at one desk."""

from __future__ import annotations

from pathlib import Path

from engine.clock import Clock
from engine.formats.format_facts import format_of_schema_file
from engine.schemas.cache import SchemaCache
from engine.schemas.desk import SchemaDesk, SourceHealth
from engine.schemas.folder import SchemaFile, SchemaFolder
from engine.schemas.http import RegistryAccess, RegistryHttp
from engine.schemas.registry import SchemaRegistry
from engine.schemas.source import SchemaSource
from engine.schemas.subjects import SubjectRule, SubjectStrategy
from engine.schemas.topics import RegistrySchemas
from floeberg.settings.registry import RegistrySettings
from floeberg.settings.topic import TopicSettings

CACHE_FOLDER = "schemas"
"""Under ``data_dir``; what is in it can be asked for again."""


class SchemaSources:
    """Makes them, and closes them all."""

    def __init__(self, data_dir: Path, clock: Clock) -> None:
        self._cache_root = data_dir / CACHE_FOLDER
        self._clock = clock
        self._registries: dict[tuple[RegistryAccess, bool], tuple[SchemaRegistry, SchemaDesk]] = {}

    def of(self, topic: TopicSettings) -> SchemaSource | None:
        """The source that a rule names; None where it names none."""
        if topic.registry is not None:
            return RegistrySchemas(*self._registry(topic.registry), subject_rule(topic.registry))
        if topic.schema_path is None:
            return None
        # By its name, not by what is there: a folder may be mounted late.
        return (SchemaFile if format_of_schema_file(topic.schema_path) else SchemaFolder)(topic.schema_path)

    def health(self) -> tuple[SourceHealth, ...]:
        """Of each registry; folders are there or not."""
        return tuple(desk.health() for _, desk in self._registries.values())

    def close(self) -> None:
        """Ask no more."""
        for _, desk in self._registries.values():
            desk.close()

    def _registry(self, registry: RegistrySettings) -> tuple[SchemaRegistry, SchemaDesk]:
        access = registry_access(registry)
        made = self._registries.get((access, registry.cache))
        if made is None:
            cache = SchemaCache(self._cache_root, access.identity) if registry.cache else None
            desk = SchemaDesk(f"the schema registry {access.identity}", self._clock)
            made = (SchemaRegistry(RegistryHttp(access, self._clock), cache), desk)
            self._registries[access, registry.cache] = made
        return made


def registry_access(registry: RegistrySettings) -> RegistryAccess:
    """How the registry is reached, its secrets in the open."""
    return RegistryAccess(
        urls=registry.url,
        user=registry.user,
        password=None if registry.password is None else registry.password.get_secret_value(),
        token=None if registry.token is None else registry.token.get_secret_value(),
        ca_file=registry.ca_file,
        cert_file=registry.cert_file,
        key_file=registry.key_file,
        key_password=None if registry.key_password is None else registry.key_password.get_secret_value(),
    )


def subject_rule(registry: RegistrySettings) -> SubjectRule:
    """Where the registry has the schemas of a topic."""
    return SubjectRule(
        strategy=SubjectStrategy(registry.subject_strategy), names=registry.subject, metadata=dict(registry.metadata)
    )
