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


def packed_jar() -> Path:
    """The jar beside this module. Raises ``Invalid`` in a checkout where it was not built."""
    jar = Path(str(resources.files("floeberg"))) / "jars" / JAR_NAME
    if not jar.is_file():
        raise Invalid("The broker plugin's jar is not built", file=str(jar), next_step="run make jar")
    return jar


def write_jar(folder: Path) -> Path:
    """Copy the jar into ``folder``, whole or not at all. Raises ``Unavailable`` when that can't be written."""
    source, target = packed_jar(), folder / JAR_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_durably(target, source.read_bytes())
    except OSError as error:
        raise Unavailable(f"The jar can't be written: {error.strerror}", file=str(target)) from error
    return target.absolute()


def broker_properties(*, jar: Path, door_url: str, token: str) -> dict[str, str]:
    """Lines of ``server.properties`` that put the plugin into a broker (KIP-405; docs/log_door.md)."""
    return {
        "remote.log.storage.system.enable": "true",
        CLASS_NAME: PLUGIN_CLASS,
        CLASS_PATH: str(jar),
        "remote.log.storage.manager.impl.prefix": _PREFIX,
        f"{_PREFIX}floeberg.url": door_url,
        f"{_PREFIX}floeberg.token": token,
    }
