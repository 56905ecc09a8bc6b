"""The broker plugin's jar as it is packed with the program, and the broker settings that go with it."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from engine.durable_file import write_durably
from engine.errors import Invalid, Unavailable

JAR_NAME = "floeberg-plugin.jar"
PLUGIN_CLASS = "io.floeberg.kafka.FloebergRemoteStorageManager"
CLASS_NAME = "remote.log.storage.manager.class.name"
CLASS_PATH = "remote.log.storage.manager.class.path"
_PREFIX = "rsm.config."
TOKEN = "floeberg.token"
TOKEN_FILE_NAME = "floeberg-plugin.token"


def packed_jar() -> Path:
    """The jar beside this module. Raises ``Invalid`` in a checkout where it was not built."""
    jar = Path(str(resources.files("floeberg"))) / "jars" / JAR_NAME
    if not jar.is_file():
        raise Invalid("The broker plugin's jar is not built", file=str(jar), next_step="run make jar")
    return jar


def write_jar(folder: Path) -> Path:
    """Copy the jar into ``folder``, whole or not at all; everybody may read it, for the broker has another user
    perhaps. Raises ``Unavailable`` when it can't be written."""
    return _write(folder / JAR_NAME, packed_jar().read_bytes(), 0o644)


def write_token(folder: Path, token: str) -> Path:
    """A file for ``floeberg.token.file``, for its owner alone. Raises ``Unavailable`` when it can't be written."""
    return _write(folder / TOKEN_FILE_NAME, f"{token}\n".encode(), 0o600)


def broker_properties(
    *, jar: Path, door_url: str, token: str | None = None, token_file: Path | None = None, ca_file: Path | None = None
) -> dict[str, str]:
    """Lines of ``server.properties`` that put the plugin into a broker (KIP-405; docs/log_door.md).

    ``ca_file`` None: the broker's Java trusts the door's certificate, if it has one.
    """
    own = {"url": door_url, "token": token, "token.file": token_file, "ca.file": ca_file}
    return {
        "remote.log.storage.system.enable": "true",
        CLASS_NAME: PLUGIN_CLASS,
        CLASS_PATH: str(jar),
        "remote.log.storage.manager.impl.prefix": _PREFIX,
        **{f"{_PREFIX}floeberg.{name}": str(value) for name, value in own.items() if value is not None},
    }


def _write(path: Path, content: bytes, mode: int) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(path, content, mode=mode)
    except OSError as error:
        raise Unavailable(f"A file for the broker can't be written: {error.strerror}", file=str(path)) from error
    return path.absolute()
