"""How much of its bounds the program uses: disks, file handles, caches. Looked at for the status, never waited for."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlparse

from engine.reading.log_reader import LogReader
from floeberg.settings import Settings
from serving.status.daemon_status import OPEN_FILES, BoundUse

WAREHOUSE_DISK = "warehouse_disk_bytes"
LOG_DISK = "log_disk_bytes"

_OPEN_FILES_FOLDER = Path("/proc/self/fd")


def disk_bounds(settings: Settings) -> Iterator[BoundUse]:
    """The disk of a local warehouse, and the fullest one of the log directories. What can't be asked is left out."""
    warehouse = urlparse(settings.catalog_properties.get("warehouse", ""))
    if warehouse.scheme in {"", "file"} and warehouse.path:
        yield from _fullest(WAREHOUSE_DISK, [Path(unquote(warehouse.path)), settings.data_dir])
    yield from _fullest(LOG_DISK, settings.broker.log_dirs)


def open_file_bound() -> Iterator[BoundUse]:
    """File handles of this process; all of them where not even the look gets one."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or not _OPEN_FILES_FOLDER.parent.exists():
        return
    try:
        used = len(os.listdir(_OPEN_FILES_FOLDER))  # noqa: PTH208 - names are all that is wanted
    except OSError:
        used = limit
    yield BoundUse(name=OPEN_FILES, used=used, limit=limit)


def cache_bounds(reader: LogReader) -> Iterator[BoundUse]:
    """What readers of history keep in memory."""
    for name, (used, limit) in reader.memory_use().items():
        yield BoundUse(name=name, used=used, limit=limit)


def _fullest(name: str, folders: Iterable[Path]) -> Iterator[BoundUse]:
    found = []
    for folder in folders:
        try:
            usage = shutil.disk_usage(folder)
        except OSError:
            continue
        # As df counts: what is kept for the superuser is not there for us.
        found.append(BoundUse(name=name, used=usage.used, limit=usage.used + usage.free))
    yield from sorted(found, key=lambda bound: bound.share)[-1:]
