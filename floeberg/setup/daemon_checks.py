"""What would end the daemon as it starts: its data directory, and the addresses that it listens at."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from engine.errors import Invalid
from engine.file_lock import owner_of
from floeberg.daemon.data_dir_lock import LOCK_FILE, lock_data_dir
from floeberg.daemon.door_access import exposures, refuse_open_doors
from floeberg.http.certificate import Certificate
from floeberg.http.server import bound_socket
from floeberg.settings import Settings
from floeberg.settings.doors import DoorSettings
from floeberg.setup.check_result import CheckResult, Verdict, good, guarded, note


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
    for section, door in (("log_door", settings.log_door), ("table_door", settings.table_door)):
        yield guarded(f"[{section}] listen", partial(_check_address, section, door))


def check_doors(settings: Settings) -> Iterator[CheckResult]:
    """What is said of doors whether or not a daemon has them open: who may reach them."""
    try:
        refuse_open_doors(settings)
    except Invalid as error:
        yield CheckResult(
            name="[table_door] tokens", verdict=Verdict.WRONG, message=error.problem, next_step=error.next_step
        )
    for section, told, is_worth_a_warning in exposures(settings):
        next_step = f"set [{section}] tls, or listen at 127.0.0.1" if is_worth_a_warning else None
        yield note(f"[{section}] listen", told, next_step) if next_step else good(f"[{section}] listen", told)


def _check_address(section: str, door: DoorSettings) -> CheckResult:
    if door.tls is not None:
        Certificate(door.tls)
    bound_socket(door.listen, setting=f"[{section}] listen").close()
    return good(f"[{section}] listen", f"{door.listen} is free")
