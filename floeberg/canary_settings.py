"""Settings of the daemon that runs for a canary: the user's log door and broker, everything else in a folder."""

from __future__ import annotations

from pathlib import Path

from floeberg.free_ports import free_ports
from floeberg.settings import CatalogSettings, Listen, Settings, TableDoorSettings, TieringSettings, TopicSettings


def canary_settings(settings: Settings, folder: Path, *, topic: str, token: str) -> Settings:
    """For ``topic`` alone; nothing is put into the spool beside the broker's log directories."""
    (port,) = free_ports(1)
    return settings.model_copy(
        update={
            "data_dir": folder,
            "namespace": "canary",
            "catalog": CatalogSettings(),
            "log_door": settings.log_door.model_copy(update={"token": token}),
            "table_door": TableDoorSettings(listen=Listen(host="127.0.0.1", port=port)),
            "tiering": TieringSettings(spool_max_bytes=0, cycle_interval_ms=200),
            "topics": (TopicSettings(name=topic),),
        }
    )
