"""Finds the settings file, reads it with the environment, and says what is wrong in the words of the file."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_settings.exceptions import SettingsError

from engine.errors import Invalid
from floeberg.settings import Settings
from floeberg.settings.registry import RegistrySettings
from floeberg.settings.section import Section

STATE_FOLDER = Path("/var/lib/floeberg")
CONFIGURATION_ROOT = Path("/etc")
"""Nothing that grows belongs there: with a settings file in it, ``data_dir`` is ``STATE_FOLDER`` by default."""

DEFAULT_FILES = (Path("floeberg.toml"), Path("/etc/floeberg/floeberg.toml"))
_MOST_PROBLEMS = 5
_SECRETS = frozenset({"user", "password", "token", "tokens"})
_Files = TypeVar("_Files", bound=Section)
_SHORT_EXAMPLE = "start from examples/floeberg.toml; [broker] bootstrap and log_dirs are all it needs"


def find_settings_file(named: Path | None) -> Path | None:
    """The file that was named, ``$FLOEBERG_CONFIG``, or the first of ``DEFAULT_FILES`` that exists; else None.

    Raises ``Invalid`` when a named file does not exist.
    """
    wanted = named or (Path(os.environ["FLOEBERG_CONFIG"]) if os.environ.get("FLOEBERG_CONFIG") else None)
    if wanted is None:
        return next((candidate for candidate in DEFAULT_FILES if candidate.is_file()), None)
    if not wanted.is_file():
        raise Invalid("There is no such settings file", file=str(wanted), next_step=_SHORT_EXAMPLE)
    return wanted


def load_settings(file: Path | None) -> Settings:
    """Read ``file`` (None: the environment alone) and the environment over it.

    Relative paths in it start at the file's folder. Raises ``Invalid`` naming the key, the file and what would be
    right.
    """
    written = {} if file is None else _read(file)
    try:
        settings = Settings(**written)
    except ValidationError as error:
        raise Invalid(
            "The settings are wrong: " + "; ".join(_problems(error)),
            file=None if file is None else str(file),
            next_step=_SHORT_EXAMPLE,
        ) from error
    except SettingsError as error:
        raise Invalid(f"The environment is wrong: {error}", next_step="write lists and tables as JSON") from error
    return _with_absolute_paths(settings, Path.cwd() if file is None else file.absolute().parent)


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"The settings file is not TOML: {error}", file=str(file)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"The settings file can't be read: {error}", file=str(file)) from error


def _problems(error: ValidationError) -> list[str]:
    found = error.errors(include_url=False)
    told = [f"{_key(problem['loc'])}: {_words(problem)}" for problem in found[:_MOST_PROBLEMS]]
    if len(found) > _MOST_PROBLEMS:
        told.append(f"and {len(found) - _MOST_PROBLEMS} more")
    return told


def _key(location: Sequence[int | str]) -> str:
    """A key as a person finds it: ``[broker] log_dirs (FLOEBERG_BROKER__LOG_DIRS)``, ``[[topics]] number 2, value``."""
    names = [str(part) for part in location]
    if not names:
        return "the file"
    if names[0] == "topics" and len(location) > 1:
        return f"[[topics]] number {int(location[1]) + 1}" + "".join(f", {name}" for name in names[2:])
    variable = f"FLOEBERG_{'__'.join(names).upper()}"
    if len(names) == 1:
        return f"{names[0]} ({variable})" if names[0] in Settings.model_fields else names[0]
    return f"[{names[0]}] {'.'.join(names[1:])} ({variable})"


def _words(problem: Any) -> str:
    kind, message = problem["type"], str(problem["msg"])
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return "is no setting"
    is_secret = any(part in _SECRETS for part in problem["loc"])
    told = "" if kind == "value_error" or is_secret else f", not {problem['input']!r}"
    return message.removeprefix("Value error, ") + told


def _with_absolute_paths(settings: Settings, base: Path) -> Settings:
    broker = settings.broker.model_copy(
        update={"log_dirs": tuple(base / log_dir.expanduser() for log_dir in settings.broker.log_dirs)}
    )
    topics = tuple(
        topic.model_copy(update={"schemas": _with_absolute_files(topic.schemas, base)}) for topic in settings.topics
    )
    doors = {name: getattr(settings, name) for name in ("log_door", "table_door")}
    doors = {
        name: door.model_copy(update={"tls": _absolute(door.tls, base, "cert_file", "key_file", "ca_file")})
        for name, door in doors.items()
        if door.tls is not None
    }
    return settings.model_copy(
        update={"broker": broker, "topics": topics, "data_dir": _data_dir(settings, base), **doors}
    )


def _data_dir(settings: Settings, base: Path) -> Path:
    data_dir = base / settings.data_dir.expanduser()
    is_ours_to_choose = "data_dir" not in settings.model_fields_set
    # One that is there already stays where it is: its tables name their files by the whole path.
    if is_ours_to_choose and base.is_relative_to(CONFIGURATION_ROOT) and not data_dir.exists():
        return STATE_FOLDER
    return data_dir


def _with_absolute_files(schemas: RegistrySettings | str | None, base: Path) -> RegistrySettings | str | None:
    if isinstance(schemas, str):
        return str(base / Path(schemas).expanduser())
    if schemas is None:
        return None
    return _absolute(schemas, base, "ca_file", "cert_file", "key_file")


def _absolute(section: _Files, base: Path, *names: str) -> _Files:
    files = {name: getattr(section, name) for name in names}
    return section.model_copy(
        update={name: base / path.expanduser() for name, path in files.items() if path is not None}
    )
