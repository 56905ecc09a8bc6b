"""Whether others on this machine may read what the daemon keeps, and whether it is kept at a place for it."""

from __future__ import annotations

from collections.abc import Iterator

from floeberg.daemon.private_files import looser
from floeberg.settings import Settings
from floeberg.settings.file import CONFIGURATION_ROOT, STATE_FOLDER
from floeberg.settings.file_access import file_access
from floeberg.setup.check_result import CheckResult, good, guarded, note


def check_files(settings: Settings) -> Iterator[CheckResult]:
    yield guarded("file access", lambda: _check_access(settings))
    if settings.data_dir.is_relative_to(CONFIGURATION_ROOT):
        yield note(
            "data directory",
            f"{settings.data_dir} lies below {CONFIGURATION_ROOT}, where nothing should grow: a new set-up has it in"
            f" {STATE_FOLDER}. This one stays, for its tables name their files by the whole path",
        )


def _check_access(settings: Settings) -> CheckResult:
    file_access(settings)
    found = list(looser(settings))
    if not found:
        group = "" if settings.file_group is None else f" and the group {settings.file_group}"
        return good("file access", f"what the daemon keeps on this machine is for its user{group} alone")
    ours = [str(path) for path, is_ours in found if is_ours]
    others = [str(path) for path, is_ours in found if not is_ours]
    steps = [f"floeberg run changes {', '.join(ours)}"] if ours else []
    steps += [f"give {', '.join(others)} to the daemon's user"] if others else []
    named = ", ".join(str(path) for path, _ in found)
    return note("file access", f"other users of this machine may get at {named}", "; ".join(steps))
