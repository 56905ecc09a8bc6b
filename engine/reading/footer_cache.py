"""Footers of data files kept on disk between starts: a cache, rebuilt from the files whenever it is lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import structlog
from rocksdict import AccessType, Options, Rdict

_log = structlog.get_logger(__name__)

WRITE_BUFFER_BYTES = 8 << 20
LARGEST_WAL_BYTES = 16 << 20
LARGEST_OPEN_FILES = 16
"""Of the database itself: the handles are for the files of the tables."""


class FooterCache:
    """Encoded footers by file path, in RocksDB. Safe to use from several threads; one process a directory.

    A directory that can't be opened, whatever the reason, is removed and begun again. What is stored is only ever a
    copy of a file's own bytes, and is parsed and checked like them.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._database: Rdict | None = self._open()

    def get(self, path: str) -> bytes | None:
        """The footer of a file, or None when it isn't here."""
        if self._database is None:
            return None
        try:
            found = self._database.get(path.encode())
        except Exception as error:  # noqa: BLE001  # outermost guard: rocksdict raises nothing narrower
            self._give_up(error)
            return None
        return found if isinstance(found, bytes) else None

    def put(self, path: str, footer: bytes) -> None:
        if self._database is None:
            return
        try:
            self._database.put(path.encode(), footer)
        except Exception as error:  # noqa: BLE001  # outermost guard: see get
            self._give_up(error)

    def remove(self, path: str) -> None:
        """Forget a file that is no longer in any table, or whose footer turned out damaged."""
        if self._database is None:
            return
        try:
            self._database.delete(path.encode())
        except Exception as error:  # noqa: BLE001  # outermost guard: see get
            self._give_up(error)

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _open(self) -> Rdict | None:
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_size(WRITE_BUFFER_BYTES)
        options.set_max_total_wal_size(LARGEST_WAL_BYTES)
        options.set_keep_log_file_num(2)
        options.set_max_open_files(LARGEST_OPEN_FILES)
        for attempt in (1, 2):
            try:
                self._directory.mkdir(parents=True, exist_ok=True)
                return Rdict(str(self._directory), options, access_type=AccessType.read_write())
            except Exception as error:  # noqa: BLE001  # outermost guard: see get
                _log.warning("footer cache can't be opened", attempt=attempt, error=str(error))
                if attempt == 1 and not _is_locked(error):
                    shutil.rmtree(self._directory, ignore_errors=True)
        return None

    def _give_up(self, error: BaseException) -> None:
        _log.warning("footer cache failed; going on without it until the next start", error=str(error))
        self._database = None


def _is_locked(error: BaseException) -> bool:
    """True when another process has the directory open: then it isn't damaged and must not be removed."""
    return "lock" in str(error).casefold()
