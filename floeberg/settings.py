"""The settings: ``floeberg.toml``, and every value of it also as ``FLOEBERG_…`` in the environment (which wins).

A nested name is joined by two underscores: ``FLOEBERG_BROKER__BOOTSTRAP``. Only ``[broker] bootstrap`` and
``log_dirs`` are required. docs and examples/floeberg.toml describe every name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

LATER_FORMATS = ("protobuf", "json")


def _split_list(value: object) -> object:
    """``a,b`` (as Kafka writes ``log.dirs``) or a JSON list, where the environment gives a text."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return json.loads(value)
    return [part.strip() for part in value.split(",") if part.strip()]


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """``{"s3": {"endpoint": "x"}}`` as ``{"s3.endpoint": "x"}``: TOML reads an unquoted ``s3.endpoint`` as a table."""
    flat: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = str(value).lower() if isinstance(value, bool) else str(value)
    return flat


TextList = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split_list)]
PathList = Annotated[tuple[Path, ...], NoDecode, BeforeValidator(_split_list)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)


class Listen(_Section):
    """An address to listen at: ``host:port``; port 0 takes a free one."""

    host: str
    port: Annotated[int, Field(ge=0, le=65535)]

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        host, colon, port = value.rpartition(":")
        if not colon or not host or not port.isdecimal():
            raise ValueError(f'write it as "host:port", for example "127.0.0.1:7810", not {value!r}')
        return {"host": host.strip("[]"), "port": int(port)}

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """What a program on this machine calls; a wildcard address is reached over the loopback."""
        host = "127.0.0.1" if self.host in {"0.0.0.0", "::", "*"} else self.host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


class BrokerSettings(_Section):
    """Beside which broker: its address, its log directories, and security settings as librdkafka names them."""

    model_config = ConfigDict(frozen=True, extra="allow", str_strip_whitespace=True)

    bootstrap: Annotated[str, Field(min_length=1)]
    log_dirs: Annotated[PathList, Field(min_length=1)]

    @property
    def security(self) -> dict[str, str]:
        """Everything else in the section, by librdkafka's names (``security.protocol``, ``sasl.username``, …)."""
        return flatten(self.model_extra or {})


class CatalogSettings(_Section):
    """Handed to pyiceberg as it is (``type``, ``uri``, ``warehouse``, …); empty for the embedded one."""

    model_config = ConfigDict(frozen=True, extra="allow")

    @property
    def properties(self) -> dict[str, str]:
        # The environment has no hyphens: S3__ACCESS_KEY_ID means s3.access-key-id. No dotted name has an underscore.
        flat = flatten(self.model_extra or {})
        return {key.replace("_", "-") if "." in key else key: value for key, value in flat.items()}


class SparkSettings(_Section):
    """Where the rewriting runs."""

    master: Annotated[str, Field(min_length=1)] = "local[*]"
    conf: Mapping[str, Any] = Field(default_factory=dict)

    @property
    def properties(self) -> dict[str, str]:
        """Spark's own settings, ``spark.`` in front or not."""
        flat = flatten(self.conf)
        return {key if key.startswith("spark.") else f"spark.{key}": value for key, value in flat.items()}


class LogDoorSettings(_Section):
    """The door of the broker's plugin; without a token one is made and kept in ``data_dir``."""

    listen: Annotated[Listen, NoDecode] = Listen(host="127.0.0.1", port=7810)
    token: str | None = None


class TableDoorSettings(_Section):
    """The door of SQL engines, with metrics and status; without tokens everyone who reaches it may read."""

    listen: Annotated[Listen, NoDecode] = Listen(host="127.0.0.1", port=7811)
    tokens: TextList = ()


class TieringSettings(_Section):
    """The bounds of tiering; None leaves the default of tiering/tiering_limits.py."""

    spool_max_bytes: NonNegativeInt | None = None
    max_tasks_per_cycle: PositiveInt | None = None
    max_bytes_per_cycle: PositiveInt | None = None
    cycle_interval_ms: PositiveInt | None = None


class TopicSettings(_Section):
    """How the topics whose name matches ``name`` (a glob) are kept; the first match wins."""

    name: Annotated[str, Field(min_length=1)] = "*"
    value: str = "raw"
    key: Literal["string", "raw"] = "string"
    schemas: str | None = None
    column_prefix: Annotated[str, Field(min_length=1)] = "kafka_"
    freshness_ms: PositiveInt | None = None
    partition_by: None = None
    cluster_by: None = None
    retention: None = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_what_comes_later(cls, values: object) -> object:
        if isinstance(values, Mapping):
            for name in ("partition_by", "cluster_by", "retention"):
                if values.get(name) is not None:
                    raise ValueError(f"{name} is not supported in this version: leave it out")
            value = values.get("value", "raw")
            if value in LATER_FORMATS:
                raise ValueError(f'value = "{value}" is not supported in this version: "raw" keeps every byte')
            if value not in {"avro", "string", "raw"}:
                raise ValueError(f'value is "avro", "string" or "raw", not {value!r}')
        return values

    @model_validator(mode="after")
    def _need_schemas_for_avro(self) -> Self:
        if self.value == "avro" and not self.schemas:
            raise ValueError('value = "avro" needs schemas: a folder of <id>.avsc files or a registry\'s http(s) URL')
        if self.value != "avro" and self.schemas:
            raise ValueError(f'schemas makes sense with value = "avro" only, not with "{self.value}"')
        return self

    @property
    def schemas_are_in_a_registry(self) -> bool:
        return self.schemas is not None and self.schemas.startswith(("http://", "https://"))


class Settings(BaseSettings):
    """All settings of a daemon. Made by ``floeberg.settings_file.load_settings``, which names what is wrong."""

    model_config = SettingsConfigDict(
        env_prefix="FLOEBERG_", env_nested_delimiter="__", frozen=True, extra="forbid", str_strip_whitespace=True
    )

    broker: BrokerSettings
    data_dir: Path = Path("floeberg-data")
    namespace: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$")] = "kafka"
    catalog: CatalogSettings = CatalogSettings()
    spark: SparkSettings = SparkSettings()
    log_door: LogDoorSettings = LogDoorSettings()
    table_door: TableDoorSettings = TableDoorSettings()
    tiering: TieringSettings = TieringSettings()
    topics: tuple[TopicSettings, ...] = (TopicSettings(),)

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
