"""fsck asks the broker which logs may hold fewer records than their tables, and assumes the least where it is away."""

from __future__ import annotations

from pathlib import Path

import pytest

from floeberg.commands.fsck import _compacted
from floeberg.processes.local_broker import LocalBroker
from floeberg.settings import Settings
from floeberg.settings.file import load_settings

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("broker")]


def settings_for(bootstrap: str, folder: Path) -> Settings:
    file = folder / "floeberg.toml"
    file.write_text(f'[broker]\nbootstrap = "{bootstrap}"\nlog_dirs = ["{folder}"]\n')
    return load_settings(file)


def test_only_topics_that_kafka_compacts_may_have_lost_records_in_the_log(
    broker: LocalBroker, topic_name: str, tmp_path: Path
) -> None:
    policies = {"kept": "delete", "compacted": "compact", "both": "compact,delete"}
    for name, policy in policies.items():
        broker.create_topic(f"{topic_name}-{name}", config={"cleanup.policy": policy})
    asked = [f"{topic_name}-{name}" for name in (*policies, "never-made")]
    found = _compacted(settings_for(broker.bootstrap, tmp_path), asked)
    assert found == {f"{topic_name}-compacted", f"{topic_name}-both"}


def test_every_topic_counts_as_compacted_while_the_broker_is_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("floeberg.commands.fsck._ASK_TIMEOUT_MS", 300)
    assert _compacted(settings_for("127.0.0.1:1", tmp_path), ["one", "two"]) == {"one", "two"}
    assert "counts as compacted" in capsys.readouterr().err.replace("\n", " ")
