"""The token that the log door and the broker's plugin share, when the settings name none."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from engine.errors import Unavailable
from engine.fault_points import FaultPoint, reach
from floeberg.settings import Settings

TOKEN_FILE = "log_door.token"
_TOKEN_BYTES = 24


def log_door_token(settings: Settings) -> str:
    """The token of the settings, or the one kept in ``data_dir``, made at the first call; readable by its owner only.

    Raises ``Unavailable`` when the file can't be read or made.
    """
    if settings.log_door.token:
        return settings.log_door.token
    path = settings.data_dir / TOKEN_FILE
    try:
        settings.data_dir.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            _create(path)
        return path.read_text().strip()
    except OSError as error:
        raise Unavailable(
            f"The log door's token can't be kept: {error.strerror}",
            file=str(path),
            next_step="set [log_door] token, or let the daemon's user write data_dir",
        ) from error


def _create(path: Path) -> None:
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    # In a container every start has the same process id: an earlier one may have ended between here and the last line.
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(_TOKEN_BYTES))
        file.flush()
        os.fsync(file.fileno())
    reach(FaultPoint.DOOR_TOKEN_WRITTEN)
    try:
        # A link fails where a rename would replace: whoever is second takes the first one's token.
        path.hardlink_to(unfinished)
        reach(FaultPoint.DOOR_TOKEN_NAMED)
    except FileExistsError:
        pass
    finally:
        unfinished.unlink()
