"""What would end the daemon as it starts: its data directory, and the addresses that it listens at."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from engine.errors import Invalid
from engine.file_lock import owner_of
from floeberg.daemon.data_dir_lock import LOCK_FILE, lock_data_dir
from floeberg.http.server import bound_socket
from floeberg.settings import Listen, Settings
from floeberg.setup.check_result import CheckResult, good, guarded, note


def check_daemon(settings: Settings) -> Iterator[CheckResult]:
    """One result for the data directory; where no daemon works in it, one for each address."""
    try:
        lock = lock_data_dir(settings.data_dir)
    except Invalid:
        owner = owner_of(settings.data_dir / LOCK_FILE)
        yield note(
            "data directory",
            f"a Floeberg works in {settings.data_dir} (process {owner or 'unknown'}): floeberg run would end at once",
            "floeberg status shows what it does; a second daemon needs a data_dir and addresses of its own",
        )
        return
    lock.release()
    yield good("data directory", f"{settings.data_dir} can be written, and no daemon works in it")
    for section, listen in (("log_door", settings.log_door.listen), ("table_door", settings.table_door.listen)):
        yield guarded(f"[{section}] listen", partial(_check_address, section, listen))


def _check_address(section: str, listen: Listen) -> CheckResult:
    bound_socket(listen, setting=f"[{section}] listen").close()
    return good(f"[{section}] listen", f"{listen} is free")
