"""The systemd unit, the image and the compose file: whole, sandboxed, and of one mind with the settings."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from floeberg.settings import Settings
from floeberg.settings.file import load_settings
from tests.packaging.dockerfile import ROOT, instructions

PACKAGING = ROOT / "packaging"
UNIT = PACKAGING / "systemd" / "floeberg.service"
MOST_EXPOSED = 2.0
"""Of systemd-analyze's 10, the lower the better; what is left is the network and memory that can be executed."""


def settings_of(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, file: Path | None = None) -> Settings:
    for name, value in environment.items():
        if name.startswith("FLOEBERG_"):
            monkeypatch.setenv(name, value)
    return load_settings(file)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_unit_is_understood_by_systemd_and_little_exposed(tmp_path: Path) -> None:
    # Only the program and the user are not on this machine.
    here = UNIT.read_text().replace("/opt/floeberg/bin/floeberg", "/bin/true").replace("=kafka\n", "=daemon\n")
    unit = tmp_path / UNIT.name
    unit.write_text(here)
    verified = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")
    security = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", str(unit)], capture_output=True, text=True, check=True
    )
    exposure = re.search(r"exposure level for \S+: ([\d.]+)", security.stdout)
    assert exposure is not None, security.stdout
    assert float(exposure[1]) <= MOST_EXPOSED


def test_unit_writes_where_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line.partition("=")[::2] for line in UNIT.read_text().splitlines() if "=" in line and line[0] != "#"]
    environment = dict(
        pair.split("=", 1) for name, value in lines if name == "Environment" for pair in shlex.split(value)
    )
    unit = dict(lines)
    broker = {"FLOEBERG_BROKER__BOOTSTRAP": "localhost:9092", "FLOEBERG_BROKER__LOG_DIRS": '["/var/lib/kafka/data"]'}
    settings = settings_of(environment | broker, monkeypatch)
    assert settings.data_dir == Path("/var/lib") / unit["StateDirectory"]
    assert Path(environment["XDG_CACHE_HOME"]) == Path("/var/cache") / unit["CacheDirectory"]
    assert settings.broker.log_dirs[0].parent == Path(unit["ReadWritePaths"]), "the spool stands beside a log directory"
    assert unit["RestartPreventExitStatus"] == "2", "wrong settings end with this code"


def test_image_runs_as_nobody_special_with_a_health_check_that_can_fail(tmp_path: Path) -> None:
    stages = [at for at, (name, _) in enumerate(instructions()) if name == "FROM"]
    assert len(stages) == 2
    last = dict(instructions()[stages[-1] :])
    assert last["USER"].split(":")[0].isdecimal()
    assert last["USER"].split(":")[0] != "0"
    check = json.loads(last["HEALTHCHECK"].split("CMD", 1)[1])
    # Nothing listens in a network of nobody: the check must say so.
    ran = subprocess.run(
        [*check[:-1], check[-1].replace(":7811", ":9")], capture_output=True, text=True, check=False, timeout=30
    )
    assert ran.returncode != 0


def test_image_builds_from_what_the_repository_has() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {".git", ".venv", "build"} <= set(ignored)
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    hook = wheel["hooks"]["custom"]["path"]
    included = re.findall(r'"force_include"\]\["([^"]+)"\]', (ROOT / hook).read_text())
    wanted = [*wheel["packages"], *wheel["shared-data"], *included, hook]
    assert not {path.split("/")[0] for path in wanted} & set(ignored), "the wheel is built from these"
    for name, rest in instructions():
        if name == "COPY" and not rest.startswith("--from"):
            assert (ROOT / rest.split()[0]).exists(), rest
        if name == "RUN":
            for path in re.findall(r"python (\w\S*\.py)", rest):
                assert (ROOT / path).is_file(), rest
                assert path.split("/")[0] not in ignored


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((PACKAGING / "compose" / "compose.yaml").read_text())
    return found


def test_compose_file_fits_the_specification() -> None:
    schema = json.loads((Path(__file__).parent / "compose-spec.json").read_text())
    jsonschema.validate(compose(), schema)
    broken = compose()
    broken["services"]["kafka"]["helthcheck"] = {}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schema)


def test_compose_file_gives_broker_and_daemon_the_same_log_directory_and_token(monkeypatch: pytest.MonkeyPatch) -> None:
    services = compose()["services"]
    environment = {name: str(value) for name, value in services["floeberg"]["environment"].items()}
    tokens = re.findall(r"\$\{(\w+):\?", "".join(environment.values()))
    named = re.findall(r"^(\w+)=", (PACKAGING / "compose" / ".env.example").read_text(), flags=re.MULTILINE)
    assert sorted(tokens) == sorted(named)
    # As compose fills them in.
    filled = re.compile(r"\$\{(\w+):\?[^}]*\}")
    settings = settings_of({name: filled.sub(r"\1", value) for name, value in environment.items()}, monkeypatch)
    broker = {name: filled.sub(r"\1", str(value)) for name, value in services["kafka"]["environment"].items()}
    assert [str(log_dir) for log_dir in settings.broker.log_dirs] == broker["KAFKA_LOG_DIRS"].split(",")
    assert settings.log_door.known_tokens == (broker["KAFKA_RSM_CONFIG_FLOEBERG_TOKEN"],)
    assert settings.log_door.url == broker["KAFKA_RSM_CONFIG_FLOEBERG_URL"]
    assert settings.table_door.tokens, "it listens beyond loopback"
    volumes = [dict(mount.split(":")[:2] for mount in services[name]["volumes"]) for name in ("kafka", "floeberg")]
    assert volumes[0]["kafka"] == volumes[1]["kafka"] == "/var/lib/kafka", "the spool stands beside the log directory"
