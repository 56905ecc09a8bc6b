"""The daemon's own folders and files on this machine, and the access that others have to them.

What matters most are the folders at the top, which no other user gets through, whatever lies below them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

from engine.errors import Unavailable
from floeberg.daemon.door_token import TOKEN_FILE
from floeberg.settings import Settings
from floeberg.settings.file_access import FileAccess, file_access
from tiering.spool import spool_root


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedPath:
    """A folder that others must not get through, or a file; ``is_deep``: what is in it is ours as well."""

    path: Path
    access: FileAccess
    is_deep: bool = True


def guarded_paths(settings: Settings) -> Iterator[GuardedPath]:
    """Those that exist. Raises ``Invalid``.

    The spool is for nobody else, and its segments are the broker's own files. Of a warehouse that is not below
    ``data_dir`` only our namespace's folder is ours.
    """
    access = file_access(settings)
    properties = settings.catalog_properties
    warehouse = urlparse(properties.get("warehouse", ""))
    paths = []
    if warehouse.path and warehouse.scheme in {"", "file"}:
        paths.append(Path(unquote(warehouse.path), *settings.namespace.split(".")))
    uri = properties.get("uri", "")
    if database := uri.removeprefix("sqlite:///").partition("?")[0] if uri.startswith("sqlite:///") else "":
        paths += sorted(Path(database).parent.glob(f"{Path(database).name}*"))
    elsewhere = (path for path in paths if not path.is_relative_to(settings.data_dir))
    for path in (settings.data_dir, *elsewhere):
        if path.exists():
            yield GuardedPath(path=path, access=access)
    for root in map(spool_root, settings.broker.log_dirs):
        if root.exists():
            yield GuardedPath(path=root, access=FileAccess(group_id=None), is_deep=False)


def looser(settings: Settings) -> Iterator[tuple[Path, bool]]:
    """What others may read that they should not, and whether this user may change that. Raises ``Invalid``."""
    for guarded in guarded_paths(settings):
        found = guarded.path.stat()
        if guarded.access.is_looser(found):
            yield guarded.path, _is_ours(found)


def tightened(settings: Settings) -> Iterator[str]:
    """Give what is ours the access that it should have, and say so: top folders, and what is in those that differed.
    Raises ``Invalid``; ``Unavailable`` where this user may not hand a file to the group."""
    for guarded in guarded_paths(settings):
        path, access, found = guarded.path, guarded.access, guarded.path.stat()
        if not access.differs(found):
            continue
        if not _is_ours(found):
            if access.is_looser(found):
                yield f"others may read {path}, which belongs to another user: nothing was changed"
            continue
        try:
            if guarded.is_deep and path.is_dir():
                _give_below(path, access)
            # The last: where it is right, so is what is in it.
            _give(path, access)
        except OSError as error:
            raise Unavailable(
                f"The group {settings.file_group!r} can't be given to a file: {error.strerror}",
                file=str(path),
                next_step="let the daemon's user be a member of file_group",
            ) from error
        yield f"{path} is now {stat.filemode(path.stat().st_mode)} for the group {path.group()}"


def _give_below(folder: Path, access: FileAccess) -> None:
    for inside, folders, files in os.walk(folder):
        for path in (Path(inside, name) for name in (*folders, *files)):
            if path.name != TOKEN_FILE and not path.is_symlink() and _is_ours(path.stat()):
                _give(path, access)


def _give(path: Path, access: FileAccess) -> None:
    if access.group_id is not None:
        os.chown(path, -1, access.group_id)
    # After the group's change, which takes away the bit that hands it on.
    path.chmod(access.mode(path.stat()))


def _is_ours(found: os.stat_result) -> bool:
    return os.geteuid() in {0, found.st_uid}
