"""What the rooms are configured with, made of the settings."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from compaction.compaction_limits import CompactionLimits
from compaction.merge_limits import MergeLimits
from engine.formats.codec import INFER_RECORDS, OnConflict
from engine.formats.proposals import ON_CONFLICT_OPTION
from engine.table.columns import TableLayout
from floeberg.java.jdk import java_command
from floeberg.settings import Settings
from floeberg.settings.schema_sources import SchemaSources
from floeberg.settings.topic import TopicSettings
from retention.sweep_limits import SweepLimits
from tiering.tiering_limits import TieringLimits
from topics.topic_rule import TopicRule
from workers.spark_session import SparkSettings


def topic_rules(settings: Settings, sources: SchemaSources) -> tuple[TopicRule, ...]:
    """The rules in the settings' order, each with its schema source where it needs one."""
    return tuple(
        TopicRule(
            pattern=topic.name,
            value_format=topic.value,
            layout=TableLayout(prefix=topic.column_prefix, key=topic.key),
            codec_options=_codec_options(topic),
            key_options=_key_options(topic),
            schema_source=sources.of(topic),
            use_latest=topic.registry is not None and topic.registry.use_latest,
            freshness_ms=None if topic.freshness_ms == "closed" else topic.freshness_ms,
            clustering=topic.clustering,
            retention=topic.retention.rule,
            latest_by_key=topic.latest_by_key,
            drops_with_topic=topic.delete_on_topic_deletion == "after_grace",
        )
        for topic in settings.topics
    )


def _codec_options(topic: TopicSettings) -> dict[str, str]:
    """What is not as by default; it is stored with the table, so nothing secret may be among it."""
    options = {**_conflict_option(topic), **topic.format_options("value")}
    if topic.unwrap is not None:
        options["unwrap"] = topic.unwrap
    if topic.infer_records is not None:
        options[INFER_RECORDS] = str(topic.infer_records)
    return options


def _key_options(topic: TopicSettings) -> dict[str, str]:
    """As ``_codec_options``, for the codec of typed keys."""
    return {**_conflict_option(topic), **topic.format_options("key")}


def _conflict_option(topic: TopicSettings) -> dict[str, str]:
    if OnConflict(topic.on_conflict) is OnConflict.SIBLING:
        return {}
    return {ON_CONFLICT_OPTION: topic.on_conflict}


def tiering_limits(settings: Settings) -> TieringLimits:
    """The defaults, with what the settings say instead."""
    given = {name: value for name, value in settings.tiering.model_dump().items() if value is not None}
    return replace(TieringLimits(), **given)


def compaction_limits(settings: Settings) -> CompactionLimits:
    """The defaults, with what the settings say instead."""
    given = {name: value for name, value in settings.compaction.model_dump().items() if value is not None}
    target_file_bytes = given.pop("target_file_bytes", MergeLimits().target_file_bytes)
    return CompactionLimits(merge=MergeLimits(target_file_bytes=target_file_bytes), **given)


def sweep_limits(settings: Settings) -> SweepLimits:
    """The defaults, with what the settings say instead."""
    grace_ms = settings.history.grace_ms
    return SweepLimits() if grace_ms is None else SweepLimits(grace_ms=grace_ms)


def sightings_folder(settings: Settings) -> Path:
    """Where sweeps keep what they saw, and what they noted of topics that are gone."""
    return settings.data_dir / "sweep"


def spark_settings(settings: Settings) -> SparkSettings:
    """The daemon's Spark. Raises ``Invalid`` when there is no JDK for it."""
    cache = os.environ.get("NUMBA_CACHE_DIR")
    return SparkSettings(
        master=settings.spark.master,
        conf=settings.spark.properties,
        java_home=Path(java_command()).resolve().parent.parent,
        kernel_cache=Path(cache) if cache else None,
    )
