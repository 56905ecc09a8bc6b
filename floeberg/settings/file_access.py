"""Who on this machine may read what the program writes: its own user, and a group where the settings name one.

Files get their mode from the process's umask, which Spark and its workers inherit.
"""

from __future__ import annotations

import grp
import os
import stat
from dataclasses import dataclass

from engine.errors import Invalid
from floeberg.settings import Settings

_OTHERS = stat.S_IRWXO
_GROUP = stat.S_IRWXG


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAccess:
    """``group_id`` None: the owner's alone. Files in a folder with a group get the folder's."""

    group_id: int | None

    @property
    def umask(self) -> int:
        return _OTHERS | (_GROUP if self.group_id is None else stat.S_IWGRP)

    def is_looser(self, found: os.stat_result) -> bool:
        """Whether others may do more than they should."""
        loose = stat.S_IMODE(found.st_mode) & self.umask
        return bool(loose) or (self._is_group_wrong(found) and bool(found.st_mode & _GROUP))

    def differs(self, found: os.stat_result) -> bool:
        return self.is_looser(found) or self._is_group_wrong(found) or stat.S_IMODE(found.st_mode) != self.mode(found)

    def mode(self, found: os.stat_result) -> int:
        """What it should be; who owns it may do what they may."""
        owners = stat.S_IMODE(found.st_mode) & stat.S_IRWXU
        if self.group_id is None:
            return owners
        for_group = (owners >> 3) & ~stat.S_IWGRP
        return owners | for_group | (stat.S_ISGID if stat.S_ISDIR(found.st_mode) else 0)

    def _is_group_wrong(self, found: os.stat_result) -> bool:
        return self.group_id is not None and found.st_gid != self.group_id


def file_access(settings: Settings) -> FileAccess:
    """Raises ``Invalid`` where there is no such group."""
    name = settings.file_group
    try:
        return FileAccess(group_id=None if name is None else grp.getgrnam(name).gr_gid)
    except KeyError as error:
        raise Invalid(f"This machine has no group {name!r}", next_step="make it, or set another file_group") from error


def keep_private(settings: Settings) -> None:
    """From here on what this process and its children make is for those whom the settings name. Raises ``Invalid``."""
    os.umask(file_access(settings).umask)
