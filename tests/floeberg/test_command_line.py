"""How the command line behaves whatever the command: what it imports, where options stand, help, completion."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from floeberg.cli import COMMANDS, app
from serving.status.daemon_status import DaemonStatus, Phase
from tests.floeberg.command import floeberg
from tests.floeberg.status_door import status_door

HEAVY = {"numpy", "pyarrow", "pyiceberg", "numba", "pyspark", "duckdb", "confluent_kafka", "sqlalchemy", "httpx"}
"""Each takes a tenth of a second of the CPU and more."""
FOR_SETTINGS = {"pydantic_settings"}
FOR_PEOPLE = {"rich"}

_IMPORTED = (
    "import atexit, json, sys\n"
    "packages = lambda: sorted({name.partition('.')[0] for name in sys.modules})\n"
    "atexit.register(lambda: print(json.dumps(packages()), file=sys.stderr))\n"
    "from floeberg.cli import main\n"
    "main()"
)


def imported_by(*arguments: str, cwd: Path) -> set[str]:
    """The packages that the command has imported when it ends."""
    done = subprocess.run(
        [sys.executable, "-c", _IMPORTED, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_help_imports_nothing_that_it_does_not_show(tmp_path: Path) -> None:
    for option in ("--help", "--version"):
        assert imported_by(option, cwd=tmp_path) & (HEAVY | FOR_SETTINGS | FOR_PEOPLE | {"pydantic"}) == set()


@pytest.mark.parametrize("command", ["status", "sql", "cat", "run", "fsck"])
def test_help_of_a_command_imports_nothing_that_only_its_work_needs(command: str, tmp_path: Path) -> None:
    assert imported_by(command, "--help", cwd=tmp_path) & (HEAVY | FOR_SETTINGS) == set()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """With settings whose table door says that all is well."""
    with status_door(tmp_path, DaemonStatus(version="1", phase=Phase.RUNNING, started_ms=0, now_ms=0)):
        yield tmp_path


def test_status_of_a_daemon_imports_nothing_that_reads_tables(folder: Path) -> None:
    assert imported_by("status", cwd=folder) & (HEAVY | {"structlog"}) == set()


@pytest.mark.parametrize(
    "arguments", [["-c", "NAMED", "status"], ["status", "-c", "NAMED"], ["status", "--config", "NAMED"]]
)
def test_settings_file_is_named_before_the_command_or_after_it(arguments: list[str], folder: Path) -> None:
    named = (folder / "floeberg.toml").rename(folder / "other.toml")
    done = floeberg(*(str(named) if word == "NAMED" else word for word in arguments), cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "healthy" in done.stdout


def test_one_commit_is_told_in_the_singular(tmp_path: Path) -> None:
    status = DaemonStatus(version="1", phase=Phase.RUNNING, started_ms=0, now_ms=0, cycle_count=1_246, commit_count=1)
    with status_door(tmp_path, status):
        assert "; 1,246 cycles, 1 commit\n" in floeberg("status", cwd=tmp_path).stdout


def test_what_is_said_after_the_command_counts(folder: Path) -> None:
    done = floeberg("-c", "nowhere.toml", "status", "-c", "floeberg.toml", cwd=folder)
    assert done.returncode == 0, done.stderr
    refused = floeberg("-c", "floeberg.toml", "status", "-c", "nowhere.toml", cwd=folder)
    assert refused.returncode == 2
    assert "nowhere.toml" in refused.stderr
    in_a_group = floeberg("schema", "check", "orders", "x.avsc", "-c", "nowhere.toml", "--debug", cwd=folder)
    assert in_a_group.returncode == 2
    assert "nowhere.toml" in in_a_group.stderr
    assert "Traceback" in in_a_group.stderr


def test_list_of_commands_has_a_line_for_each_and_flags_have_no_type() -> None:
    listed = CliRunner().invoke(app, ["--help"]).output
    for name, line in COMMANDS.items():
        (shown,) = (one for one in listed.splitlines() if one.split()[:1] == [name])
        assert shown.endswith(line)
        assert len(shown) <= 80
        own = CliRunner().invoke(app, [name, "--help"])
        assert own.exit_code == 0
        for text in ("--config", "--debug"):
            assert text in own.output
        assert "<bool>" not in own.output


def test_mistyped_command_is_told_which_one_there_is() -> None:
    refused = CliRunner().invoke(app, ["stats"])
    assert refused.exit_code == 2
    assert "Did you mean 'status'?" in refused.output


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sta"], {"status"}),
        (["status", "--w"], {"--watch"}),
        (["status", "--conf"], {"--config"}),
        (["schema", "ch"], {"check"}),
    ],
)
def test_bash_completes_commands_and_options(words: list[str], expected: set[str], tmp_path: Path) -> None:
    """By what ``--show-completion`` prints, under the name that users type."""
    command = tmp_path / "floeberg"
    command.write_text(f"#!{sys.executable}\nfrom floeberg.cli import main\nmain()\n")
    command.chmod(0o755)
    typed = (
        f'eval "$(floeberg --show-completion)"; COMP_WORDS=(floeberg {" ".join(words)}); COMP_CWORD={len(words)};'
        ' _floeberg_completion floeberg; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", typed],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert set(done.stdout.split()) == expected, done.stderr
