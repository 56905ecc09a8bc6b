"""Jars from the registry: fetched once, whole or not at all."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from engine.errors import Invalid, Unavailable
from floeberg.java.maven_jars import SLF4J_SIMPLE, MavenArtifact, resolve_jars

NOWHERE = """<ivysettings><settings defaultResolver="nowhere"/><resolvers>
<ibiblio name="nowhere" m2compatible="true" root="http://127.0.0.1:1/"/></resolvers></ivysettings>"""


def resolve_names(cache: Path) -> list[str]:
    return [jar.name for jar in resolve_jars([SLF4J_SIMPLE], cache=cache)]


@pytest.fixture
def registry_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "nowhere.xml"
    settings.write_text(NOWHERE)
    monkeypatch.setenv("FLOEBERG_IVY_SETTINGS", str(settings))


def test_processes_that_ask_at_once_all_get_the_whole_set_and_need_no_registry_any_more(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        answers = pool.map(resolve_names, [tmp_path] * 3, chunksize=1)
    assert answers == [["slf4j-simple-1.7.36.jar"]] * 3
    assert [folder.suffix for folder in (tmp_path / "jars").iterdir()] != [".unfinished"]
    request.getfixturevalue("registry_is_away")
    assert resolve_names(tmp_path) == answers[0]


@pytest.mark.usefixtures("registry_is_away")
def test_registry_that_is_away_is_unavailable_and_leaves_no_half_folder(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"slf4j-simple:1\.7\.36: .*Connection refused"):
        resolve_jars([SLF4J_SIMPLE], cache=tmp_path)
    assert list((tmp_path / "jars").iterdir()) == []


@pytest.mark.parametrize("text", ["", "group:name", "group:name:", "a:b:c:d"])
def test_text_that_is_no_artifact_is_invalid(text: str) -> None:
    with pytest.raises(Invalid, match="group:name:version"):
        MavenArtifact.parse(text)
