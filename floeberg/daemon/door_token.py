"""The token that the log door and the broker's plugin share, when the settings name none."""

from __future__ import annotations

import secrets

from pydantic import SecretStr

from engine.durable_file import write_durably
from engine.errors import Unavailable
from engine.fault_points import FaultPoint
from floeberg.settings import Settings
from floeberg.settings.secret import TokensInClear
from floeberg.settings.token_file import TokenFile

TOKEN_FILE = "log_door.token"
_TOKEN_BYTES = 24


def log_door_tokens(settings: Settings) -> tuple[str, ...]:
    """``log_door_secrets`` in clear, as they are now. The first is what programs of ours use."""
    return tuple(TokensInClear(*log_door_secrets(settings)))


def log_door_secrets(settings: Settings) -> tuple[SecretStr, ...]:
    """The tokens of the settings, or the one kept in ``data_dir``, made at the first call; readable by its owner only.

    Raises ``Unavailable`` when the file can't be read or made.
    """
    if settings.log_door.tokens:
        return settings.log_door.tokens
    path = settings.data_dir / TOKEN_FILE
    try:
        settings.data_dir.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            # Without replacing: whoever is second takes the first one's token.
            write_durably(
                path,
                secrets.token_urlsafe(_TOKEN_BYTES).encode(),
                mode=0o600,
                replaces=False,
                synced=FaultPoint.DOOR_TOKEN_WRITTEN,
                named=FaultPoint.DOOR_TOKEN_NAMED,
            )
        return (TokenFile(path),)
    except (OSError, ValueError) as error:
        raise Unavailable(
            f"The log door's token can't be kept: {getattr(error, 'strerror', None) or error}",
            file=str(path),
            next_step="set [log_door] tokens, or let the daemon's user write data_dir",
        ) from error
