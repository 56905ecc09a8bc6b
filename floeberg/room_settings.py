"""What the rooms are configured with, made of the settings."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from engine.clock import Clock
from engine.formats.schema_folder import SchemaFolder
from engine.formats.schema_registry import RegistryAccess, SchemaRegistry
from engine.formats.schema_source import SchemaSource
from engine.table.columns import TableLayout
from floeberg.jdk import java_command
from floeberg.settings import Settings, TopicSettings
from tiering.spark_session import SparkSettings
from tiering.tiering_limits import TieringLimits
from tiering.topic_rule import TopicRule


def topic_rules(settings: Settings, clock: Clock) -> tuple[TopicRule, ...]:
    """The rules in the settings' order; each has a schema source of its own where it needs one."""
    return tuple(
        TopicRule(
            pattern=topic.name,
            value_format=topic.value,
            layout=TableLayout(prefix=topic.column_prefix, key=topic.key),
            schema_source=_schema_source(topic, clock),
            freshness_ms=topic.freshness_ms,
        )
        for topic in settings.topics
    )


def _schema_source(topic: TopicSettings, clock: Clock) -> SchemaSource | None:
    if topic.schemas is None:
        return None
    if topic.schemas_are_in_a_registry:
        return SchemaRegistry(registry_access(topic.schemas), clock)
    return SchemaFolder(Path(topic.schemas))


def registry_access(url: str) -> RegistryAccess:
    """A registry's URL, with user and password in it (``http://user:password@host``) where it wants some."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return RegistryAccess(
        url=urlunsplit((parts.scheme, host, parts.path, parts.query, "")),
        user=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
    )


def tiering_limits(settings: Settings) -> TieringLimits:
    """The defaults, with what the settings say instead."""
    given = {name: value for name, value in settings.tiering.model_dump().items() if value is not None}
    return replace(TieringLimits(), **given)


def spark_settings(settings: Settings) -> SparkSettings:
    """The daemon's Spark. Raises ``Invalid`` when there is no JDK for it."""
    cache = os.environ.get("NUMBA_CACHE_DIR")
    return SparkSettings(
        master=settings.spark.master,
        conf=settings.spark.properties,
        java_home=Path(java_command()).resolve().parent.parent,
        kernel_cache=Path(cache) if cache else None,
    )
