"""A new user's first hour, beside a broker with the settings that Kafka ships."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.floeberg.command import floeberg
from tests.native.shipped_broker import ShippedBroker

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("first-hour")]

CLOSES_SOON = {"segment.ms": "1000"}
CLICKS = [{"page": f"/{number}", "user": {"id": number}} for number in range(5)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShippedBroker]:
    with ShippedBroker(tmp_path_factory.mktemp("shipped") / "broker") as broker:
        for topic, values in {
            "clicks": [json.dumps(click).encode() for click in CLICKS],
            "notes": [b"hello"],
            "numbers": [number.to_bytes(8, "big") for number in range(10)],
            "gone": [None],
        }.items():
            broker.create_topic(topic, config=CLOSES_SOON)
            produce(broker, topic, values)
        broker.create_topic("empty")
        yield broker


def produce(broker: ShippedBroker, topic: str, values: list[bytes | None]) -> None:
    """Values in a segment that is closed, by a record that is not."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for value in values:
        producer.produce(topic, value, b"key", timestamp=1_000)
    assert producer.flush(30) == 0
    producer.produce(topic, values[-1], b"later")
    assert producer.flush(30) == 0


@pytest.fixture(scope="module")
def folder(broker: ShippedBroker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The two settings that there must be."""
    made = tmp_path_factory.mktemp("first-hour")
    log_dirs = json.dumps([str(log_dir) for log_dir in broker.log_dirs])
    (made / "floeberg.toml").write_text(f'[broker]\nbootstrap = "{broker.bootstrap}"\nlog_dirs = {log_dirs}\n')
    return made


def checks(folder: Path) -> dict[str, dict[str, str]]:
    done = floeberg("check", "--no-spark", "--json", cwd=folder)
    return {check["name"]: check for check in json.loads(done.stdout)["checks"]}


def test_two_settings_show_the_columns_of_json(folder: Path) -> None:
    before = checks(folder)
    told = {name.removeprefix("topic "): one for name, one in before.items() if name.startswith("topic ")}
    assert {topic: one["verdict"] for topic, one in told.items()} == {
        "clicks": "good",
        "notes": "good",
        "numbers": "good",
        "gone": "note",
        "empty": "note",
    }
    assert "value = json: 6 of the first 6 values are JSON objects" in told["clicks"]["message"]
    assert "value = raw" in told["numbers"]["message"]
    tiered = floeberg("tier", "--once", "--in-process", cwd=folder)
    assert tiered.returncode == 0, tiered.stderr + tiered.stdout
    done = floeberg("sql", "--json", 'SELECT * FROM clicks ORDER BY "kafka_offset"', cwd=folder)
    rows = json.loads(done.stdout)
    assert [{"page": row["page"], "user": row["user"]} for row in rows] == CLICKS
    assert "value" not in rows[0]
    assert "value = json, as the table kafka.clicks has it" in checks(folder)["topic clicks"]["message"]
    # What tells no format yet has no table, and nothing is wrong with that.
    tables = floeberg("sql", "--json", "SHOW TABLES", cwd=folder).stdout
    assert "clicks" in tables
    assert "gone" not in tables


def test_table_of_another_format_is_told_and_gets_the_one_that_the_settings_say(folder: Path) -> None:
    settings = (folder / "floeberg.toml").read_text()
    (folder / "floeberg.toml").write_text(settings + '[[topics]]\nname = "clicks"\nvalue = "string"\n')
    told = checks(folder)["table of clicks"]
    assert told["verdict"] == "wrong"
    assert told["message"] == 'the settings say value = "string", the topic\'s table was made for value = "json"'
    assert told["next_step"].endswith("floeberg table retype clicks")
    foreseen = json.loads(floeberg("table", "retype", "clicks", "--dry-run", "--json", cwd=folder).stdout)
    assert (foreseen["from"], foreseen["to"], foreseen["records"], foreseen["files"] > 0) == ("json", "string", 5, True)
    done = floeberg("table", "retype", "clicks", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "kafka.clicks  went from json to string" in done.stdout
    assert "table of clicks" not in checks(folder)
    rows = json.loads(floeberg("sql", "--json", "SELECT value FROM clicks ORDER BY kafka_offset", cwd=folder).stdout)
    assert [json.loads(row["value"]) for row in rows] == CLICKS
    again = floeberg("table", "retype", "clicks", cwd=folder)
    assert (again.returncode, "has string values already" in again.stdout) == (0, True)
    (folder / "floeberg.toml").write_text(settings)
    back = floeberg("table", "retype", "clicks", "--value", "json", cwd=folder)
    assert "went from string to json" in back.stdout, back.stderr
    refused = floeberg("table", "retype", "clicks", "--value", "avro", cwd=folder)
    assert (refused.returncode, 'value = "avro" needs schemas' in refused.stderr) == (2, True), refused.stderr


def test_renamed_table_is_what_every_command_finds(folder: Path) -> None:
    done = floeberg("table", "rename", "clicks", "page_views", cwd=folder)
    assert (done.returncode, "kafka.clicks is kafka.page_views now" in done.stdout) == (0, True), done.stderr
    assert floeberg("tier", "--once", "--in-process", cwd=folder).returncode == 0
    tables = floeberg("sql", "--json", "SHOW TABLES", cwd=folder).stdout
    assert ("page_views" in tables, "clicks" in tables) == (True, False)
    assert "as the table kafka.page_views has it" in checks(folder)["topic clicks"]["message"]
    assert floeberg("fsck", "clicks", cwd=folder).returncode == 0
    assert floeberg("cat", "clicks", "-n", "1", cwd=folder).returncode == 0
    assert floeberg("table", "rename", "clicks", "clicks", cwd=folder).returncode == 0


def test_table_is_dropped_by_its_topics_name(folder: Path) -> None:
    settings = (folder / "floeberg.toml").read_text()
    (folder / "floeberg.toml").write_text(settings + '[[topics]]\nname = "clicks"\nvalue = "string"\n')
    refused = floeberg("table", "drop", "clicks", cwd=folder, typed="clicke\n")
    assert refused.returncode == 2
    assert "that is another name" in refused.stderr
    dropped = floeberg("table", "drop", "clicks", cwd=folder, typed="clicks\n")
    assert dropped.returncode == 0, dropped.stderr
    assert "files removed" in dropped.stdout
    assert floeberg("tier", "--once", "--in-process", cwd=folder).returncode == 0
    rows = json.loads(floeberg("sql", "--json", "SELECT value FROM clicks ORDER BY kafka_offset", cwd=folder).stdout)
    assert [json.loads(row["value"]) for row in rows] == CLICKS
    (folder / "floeberg.toml").write_text(settings)


def test_init_asks_the_broker_and_writes_what_check_and_tier_take(broker: ShippedBroker, tmp_path: Path) -> None:
    done = floeberg("init", "--bootstrap", broker.bootstrap, "--yes", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "floeberg.toml").read_text()
    assert f'log_dirs = ["{broker.log_dirs[0]}"]' in written
    assert "clicks   json (6 of the first 6 values are JSON objects)" in written
    assert "numbers  raw (" in written
    assert "empty    no record tells" in written
    assert "topic clicks: json (" in done.stdout
    found = checks(tmp_path)
    assert [name for name, check in found.items() if check["verdict"] == "wrong"] == [], found
    assert floeberg("tier", "--once", "--in-process", cwd=tmp_path).returncode == 0
    rows = json.loads(floeberg("sql", "--json", "SELECT page FROM clicks ORDER BY kafka_offset", cwd=tmp_path).stdout)
    assert rows == [{"page": click["page"]} for click in CLICKS]


def test_init_leaves_a_file_that_is_there_until_it_is_told(broker: ShippedBroker, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("mine")
    asked = ("init", "--bootstrap", broker.bootstrap, "--yes", "-o", "mine.toml")
    refused = floeberg(*asked, cwd=tmp_path)
    assert (refused.returncode, (tmp_path / "mine.toml").read_text()) == (2, "mine")
    assert "--overwrite" in refused.stderr
    assert floeberg(*asked, "--overwrite", cwd=tmp_path).returncode == 0
    assert "[broker]" in (tmp_path / "mine.toml").read_text()


def test_init_asks_what_it_is_not_told(broker: ShippedBroker, tmp_path: Path) -> None:
    done = floeberg("init", cwd=tmp_path, typed=f"{broker.bootstrap}\n\n")
    assert done.returncode == 0, done.stderr
    assert f'bootstrap = "{broker.bootstrap}"' in (tmp_path / "floeberg.toml").read_text()


def test_init_beside_no_broker_says_where_it_must_run(tmp_path: Path) -> None:
    away = floeberg("init", "--bootstrap", "127.0.0.1:1", "--yes", cwd=tmp_path)
    assert away.returncode == 1
    assert "127.0.0.1:1" in away.stderr
    assert not (tmp_path / "floeberg.toml").exists()
