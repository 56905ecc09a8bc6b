"""The documents say what is so: their commands exist, their settings load, their links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from floeberg.cli import app
from floeberg.settings.file import load_settings

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def blocks(language: str) -> list[tuple[str, str]]:
    """(document, code) of every fenced block in that language."""
    fence = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return [(path.name, code) for path in DOCUMENTS for code in fence.findall(path.read_text())]


def commands() -> list[str]:
    lines = {line.split("#")[0].strip() for _, code in blocks("console") for line in code.splitlines()}
    return sorted(line.removeprefix("$ ") for line in lines if line)


def test_console_blocks_hold_the_two_commands_of_the_set_up() -> None:
    assert {"make demo", "make test"} <= set(commands())


@pytest.mark.parametrize("command", [line for line in commands() if line.startswith("make ")])
def test_every_make_command_of_the_docs_has_a_target(command: str) -> None:
    subprocess.run(["make", "--dry-run", *command.split()[1:]], cwd=ROOT, check=True, capture_output=True)


@pytest.mark.parametrize("command", [line for line in commands() if line.startswith("floeberg ")])
def test_every_floeberg_command_of_the_docs_exists_with_its_options(command: str) -> None:
    words = command.split()[1:]

    def help_of(*names: str) -> str:
        shown = CliRunner().invoke(app, [*names, "--help"], env={"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"})
        assert shown.exit_code == 0, shown.output
        return shown.output

    output = help_of(words[0])
    if "COMMAND [ARGS]" in output:
        output = help_of(*words[:2])
    for option in (word for word in words[1:] if word.startswith("--")):
        assert option in output


def test_settings_shown_in_the_docs_load(tmp_path: Path) -> None:
    whole = [code for _, code in blocks("toml") if "bootstrap" in code and "log_dirs" in code]
    assert whole, "no document shows the smallest settings file"
    for number, code in enumerate([*whole, (ROOT / "examples" / "floeberg.toml").read_text()]):
        file = tmp_path / f"{number}.toml"
        file.write_text(code)
        assert load_settings(file).broker.bootstrap == tomllib.loads(code)["broker"]["bootstrap"]


def test_every_commented_setting_of_the_example_loads_too(tmp_path: Path) -> None:
    """The example shows each default as a comment; a name that no longer exists must not stay there."""
    example = (ROOT / "examples" / "floeberg.toml").read_text()
    uncommented = re.sub(r"^# (?=\[?[a-z_.]+(?:\]| =))", "", example, flags=re.MULTILINE)
    assert uncommented != example
    file = tmp_path / "floeberg.toml"
    file.write_text(uncommented)
    assert load_settings(file).topics


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_relative_link_leads_to_a_file(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text())
    missing = [target for target in targets if "://" not in target and not (path.parent / target).exists()]
    assert not missing
