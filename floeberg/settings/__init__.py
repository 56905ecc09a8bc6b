"""The settings: ``floeberg.toml``, and every value of it also as ``FLOEBERG_…`` in the environment (which wins).

A nested name is joined by two underscores: ``FLOEBERG_BROKER__BOOTSTRAP``. Only ``[broker] bootstrap`` and
``log_dirs`` are required. The text under each name is what docs/settings.md says of it
(``python -m tests.house.settings_page``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, NonNegativeInt, PositiveInt, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from engine.errors import Invalid
from engine.formats.format_facts import AUTO
from engine.table.history_limits import HistoryLimits
from floeberg.settings.doors import LogDoorSettings, TableDoorSettings
from floeberg.settings.secret import Tokens
from floeberg.settings.section import PathList, Section
from floeberg.settings.topic import TopicSettings
from retention.sweep_limits import SHORTEST_GRACE_MS
from serving.status.topic_series import MOST_PARTITIONS


def _flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """``{"s3": {"endpoint": "x"}}`` as ``{"s3.endpoint": "x"}``: TOML reads an unquoted ``s3.endpoint`` as a table."""
    flat: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat.update(_flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = str(value).lower() if isinstance(value, bool) else str(value)
    return flat


class BrokerSettings(Section):
    """Beside which broker: its address, its log directories, and security settings as librdkafka names them
    (``security.protocol``, ``sasl.mechanism``, ``sasl.username``, ``ssl.ca.location``, …)."""

    model_config = ConfigDict(frozen=True, extra="allow", str_strip_whitespace=True)

    bootstrap: Annotated[str, Field(min_length=1)]
    """The broker's address, ``host:port``; several are separated by commas."""

    log_dirs: Annotated[PathList, Field(min_length=1)]
    """The broker's own ``log.dirs``, as this machine sees them."""

    @property
    def security(self) -> dict[str, str]:
        """Everything else in the section, by librdkafka's names (``security.protocol``, ``sasl.username``, …)."""
        return _flatten(self.model_extra or {})


class CatalogSettings(Section):
    """Handed to pyiceberg as it is (``type``, ``uri``, ``warehouse``, ``s3.endpoint``, …). Without the section there is
    an embedded one: SQLite and a folder of files under ``data_dir``."""

    model_config = ConfigDict(frozen=True, extra="allow")

    @property
    def properties(self) -> dict[str, str]:
        # The environment has no hyphens: S3__ACCESS_KEY_ID means s3.access-key-id. No dotted name has an underscore.
        flat = _flatten(self.model_extra or {})
        return {key.replace("_", "-") if "." in key else key: value for key, value in flat.items()}


class SparkSettings(Section):
    """Where the rewriting runs."""

    master: str = "local[*]"
    """How many of this machine's cores Spark may use: ``local[*]`` for all, ``local[2]`` for two."""

    conf: Mapping[str, Any] = Field(default_factory=dict)
    """Spark's own settings by their names, ``spark.`` in front or not: ``conf.driver.memory = "1g"``."""

    @field_validator("master")
    @classmethod
    def _is_local(cls, master: str) -> str:
        if re.fullmatch(r"local(\[(\*|\d+)(, *\d+)?\])?", master) is None:
            raise ValueError(
                f'"{master}" is no Spark on this machine: tasks read the broker\'s segments as local files; '
                'master is "local[*]", or "local[2]" for two cores'
            )
        return master

    @property
    def properties(self) -> dict[str, str]:
        """Spark's own settings, ``spark.`` in front or not."""
        flat = _flatten(self.conf)
        return {key if key.startswith("spark.") else f"spark.{key}": value for key, value in flat.items()}


class MetricsSettings(Section):
    """``/metrics``, at the table door: what it says beside the totals of every topic, and to whom."""

    max_partitions: NonNegativeInt = MOST_PARTITIONS
    """How many partitions have series of their own. Where there are more, only those have that are behind or not well,
    the worst first."""

    access: Literal["tokens", "open"] = "tokens"
    """``tokens``: for whoever has a token of the table door, where it has some, or one of these. ``open``: for
    everybody who reaches the door."""

    tokens: Tokens = ()
    """Each opens ``/metrics`` and nothing else."""


class TieringSettings(Section):
    """The bounds of tiering (tiering.md)."""

    spool_max_bytes: NonNegativeInt | None = None
    """Bytes of segments that are held by hard links until they are in the table, so that Kafka's own retention can't
    take them (watch mode). What finds no room is reported as at risk."""

    max_tasks_per_cycle: PositiveInt | None = None
    """Ranges that one cycle takes on; a small range counts as a part of one."""

    max_bytes_per_cycle: PositiveInt | None = None
    """Bytes of segments that one cycle takes on; a single larger segment still gets its turn, alone."""

    cycle_interval_ms: PositiveInt | None = None
    """The pause between cycles when nobody hurries."""


class CompactionSettings(Section):
    """Small files become large ones, beside tiering and after it (compaction.md)."""

    enabled: bool = True
    """Whether files are merged; repairs go on without."""

    target_file_bytes: Annotated[int, Field(ge=1 << 20)] | None = None
    """What a merged file has at most. Larger: fewer files for SQL; a reader by offset finds its place as fast."""

    max_parallel: PositiveInt | None = None
    """Files that are written at once; never as many as there are cores."""

    cpu_share: Annotated[float, Field(gt=0, le=1)] | None = None
    """The share of all cores that merging and verifying may take over time."""


_HISTORY_LIMITS = ("max_age_ms", "min_snapshots", "max_snapshots")


class HistorySettings(Section):
    """What tables keep of their past, and for how long files that nothing names any more (retention.md)."""

    max_age_ms: PositiveInt | None = None
    """Older snapshots go with the next commit. A branch or a tag keeps one for as long as it names it."""

    min_snapshots: PositiveInt | None = None
    """The newest snapshots stay, however old; no more than ``max_snapshots``."""

    max_snapshots: PositiveInt | None = None
    """The oldest of more snapshots go, however young: each commit writes all of them again."""

    grace_ms: Annotated[int, Field(ge=SHORTEST_GRACE_MS)] | None = None
    """How long a file stays that nothing names any more: a query may still read it. A query that takes longer than this
    may find a file gone."""

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        try:
            self.limits  # noqa: B018  # what it raises
        except Invalid as error:
            raise ValueError(error.problem) from error
        return self

    @property
    def limits(self) -> HistoryLimits:
        """The defaults, with what is set instead."""
        given = {name: value for name in _HISTORY_LIMITS if (value := getattr(self, name)) is not None}
        return HistoryLimits(**given)


class Settings(BaseSettings):
    """All settings of a daemon. Made by ``floeberg.settings.file.load_settings``, which names what is wrong."""

    model_config = SettingsConfigDict(
        env_prefix="FLOEBERG_", env_nested_delimiter="__", frozen=True, extra="forbid", str_strip_whitespace=True
    )

    broker: BrokerSettings
    data_dir: Path = Path("floeberg-data")
    """The folder of the embedded catalog and warehouse, of local caches and of the log door's token. A relative path
    starts at the settings file's folder. For a settings file below ``/etc`` it is ``/var/lib/floeberg`` by default,
    unless there is one beside the file already."""

    file_group: Annotated[str, Field(min_length=1)] | None = None
    """A group of this machine that may read the tables' files and the catalog's; by default nobody but the daemon's
    user may (security.md)."""

    namespace: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$")] = "kafka"
    """Tables are named ``<namespace>.<topic>``: letters, digits and underscores. Two clusters in one catalog need
    two."""

    catalog: CatalogSettings = CatalogSettings()
    spark: SparkSettings = SparkSettings()
    log_door: LogDoorSettings = LogDoorSettings()
    table_door: TableDoorSettings = TableDoorSettings()
    metrics: MetricsSettings = MetricsSettings()
    tiering: TieringSettings = TieringSettings()
    compaction: CompactionSettings = CompactionSettings()
    history: HistorySettings = HistorySettings()
    topics: tuple[TopicSettings, ...] = (TopicSettings(),)

    @property
    def formats(self) -> frozenset[str] | None:
        """Those of values and keys; None where topics' own values decide (``auto``)."""
        named = frozenset(name for topic in self.topics for name in (topic.value, topic.key))
        return None if AUTO in named else named

    @property
    def catalog_properties(self) -> dict[str, str]:
        """The settings' own catalog, or the embedded one below ``data_dir``."""
        from engine.table.catalog.access import embedded_catalog_properties

        return self.catalog.properties or embedded_catalog_properties(self.data_dir)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment, then what the file says. No dotenv: one file is enough to look at."""
        del settings_cls, dotenv_settings, file_secret_settings
        return env_settings, init_settings
