"""The page of all settings says what the models say."""

from __future__ import annotations

from floeberg.settings import Settings
from tests.house.settings_page import PAGE, page, sections


def test_page_is_what_the_models_say() -> None:
    assert PAGE.read_text() == page(), "run python -m tests.house.settings_page"


def test_every_setting_is_described_once() -> None:
    found = list(sections())
    assert {f"[{name}]" for name in Settings.model_fields} - {f"[{title.strip('[]')}]" for title, _, _ in found} == {
        "[data_dir]",
        "[file_group]",
        "[namespace]",
    }
    assert all(about for _, about, _ in found)
    undescribed = [f"{title} {one.name}" for title, _, settings in found for one in settings if not one.description]
    assert not undescribed, "each setting has a text under it in the source"


def test_defaults_are_those_of_the_rooms_and_carry_their_unit() -> None:
    rows = {f"{title} {one.name}": one for title, _, settings in sections() for one in settings}
    assert rows["[history] grace_ms"].default == "`86400000` (1 d)"
    assert rows["[history] grace_ms"].values == "a whole number, at least `3600000` (1 h)"
    assert rows["[compaction] target_file_bytes"].default == "`268435456` (256 MiB)"
    assert rows["[broker] bootstrap"].default == "**required**"
    assert rows["[log_door] listen"].default == '`"127.0.0.1:7810"`'
