"""The command line on a real broker in watch mode: tier, status, cat, sql, fsck, check, and what errors look like."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer

from floeberg.demo.sample_orders import ORDER_SCHEMA, ORDER_SCHEMA_ID, sample_orders
from floeberg.processes.local_broker import LocalBroker
from tests.floeberg.command import floeberg

ORDERS = 400


@pytest.fixture(scope="module")
def folder(broker: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A settings file for the shared broker, and two topics whose segments are all closed but the last."""
    made = tmp_path_factory.mktemp("commands")
    (made / "schemas").mkdir()
    (made / "schemas" / f"{ORDER_SCHEMA_ID}.avsc").write_text(ORDER_SCHEMA)
    log_dirs = json.dumps([str(log_dir) for log_dir in broker.log_dirs])
    (made / "floeberg.toml").write_text(
        f'[broker]\nbootstrap = "{broker.bootstrap}"\nlog_dirs = {log_dirs}\n'
        '[table_door]\nlisten = "127.0.0.1:1"\n'
        '[[topics]]\nname = "cmd.orders"\nvalue = "avro"\nschemas = "schemas"\nfreshness_ms = "closed"\n'
        '[[topics]]\nname = "cmd-notes"\nvalue = "string"\nfreshness_ms = "closed"\n'
    )
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "batch.size": 4096})
    for topic in ("cmd.orders", "cmd-notes"):
        broker.create_topic(topic, partitions=2, config={"segment.bytes": "1048576", "segment.ms": "1000"})
    for number, (key, value, timestamp_ms) in enumerate(sample_orders(ORDERS)):
        producer.produce("cmd.orders", value, key, number % 2, timestamp=timestamp_ms)
    producer.produce("cmd-notes", "grüße", b"k", 0, timestamp=1_000, headers=[("h", b"1"), ("h", None)])
    producer.produce("cmd-notes", b"\xff\xfe", None, 0, timestamp=2_000)
    producer.produce("cmd-notes", None, b"gone", 0, timestamp=3_000)
    producer.flush(30)
    # A record stamped days later closes the segment before it.
    for topic, partition in (("cmd.orders", 0), ("cmd.orders", 1), ("cmd-notes", 0)):
        producer.produce(topic, b"later", b"later", partition)
    assert producer.flush(30) == 0
    return made


@pytest.fixture(scope="module")
def tiered(folder: Path) -> Path:
    done = floeberg("tier", "--once", "--in-process", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr + done.stdout
    report = json.loads(done.stdout)
    assert report["records"] == ORDERS + 3
    # One range a segment; how many there are is the producer's batching, which follows the machine's load.
    notes = report["committed"]["cmd-notes-0"]
    assert [notes[0][0], *(end for _, end in notes)] == [*(start for start, _ in notes), 3]
    assert notes[0][0] == 0
    return folder


pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("broker")]


def test_second_round_finds_nothing_to_do(tiered: Path) -> None:
    done = floeberg("tier", "--once", "--in-process", cwd=tiered)
    assert done.returncode == 0
    assert "0 records in 0 files" in done.stdout


def test_status_without_a_daemon_tells_what_the_tables_say(tiered: Path) -> None:
    answer = json.loads(floeberg("status", "--json", cwd=tiered).stdout)
    assert answer["daemon"] is False
    ends = {(part["topic"], part["partition"]): part["tiered_end"] for part in answer["partitions"]}
    assert ends == {("cmd.orders", 0): ORDERS // 2, ("cmd.orders", 1): ORDERS // 2, ("cmd-notes", 0): 3}
    assert "no daemon runs here" in floeberg("status", cwd=tiered).stdout


def test_cat_gives_every_record_back_decoded(tiered: Path) -> None:
    done = floeberg("cat", "cmd.orders", "--partition", "1", "--from", "10", "--to", "12", "--json", cwd=tiered)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    expected = [(key, at) for key, _, at in sample_orders(ORDERS)][21:25:2]
    assert [(record["offset"], record["key"], record["timestamp_ms"]) for record in records] == [
        (10, expected[0][0].decode(), expected[0][1]),
        (11, expected[1][0].decode(), expected[1][1]),
    ]
    assert records[0]["value"]["order_id"] == int(records[0]["key"])
    assert records[0]["value"]["shipping"]["country"]
    assert records[0]["schema_id"] == ORDER_SCHEMA_ID


def test_cat_shows_what_is_no_text_null_or_headed(tiered: Path) -> None:
    done = floeberg("cat", "cmd-notes", "--json", cwd=tiered)
    first, damaged, tombstone = (json.loads(line) for line in done.stdout.splitlines())
    assert (first["value"], first["headers"]) == ("grüße", [["h", "1"], ["h", None]])
    assert damaged["value"] == {"base64": "//4="}
    assert "UTF-8" in damaged["error"]
    assert (tombstone["key"], tombstone["value"], tombstone["error"]) == ("gone", None, None)
    assert floeberg("cat", "cmd-notes", "-n", "1", cwd=tiered).stdout.startswith(
        "0/0  1970-01-01T00:00:01.000Z  k  grüße"
    )


def test_sql_without_a_daemon_opens_a_door_of_its_own(tiered: Path) -> None:
    query = "SELECT kafka_partition AS p, count(*) AS n FROM cmd_orders GROUP BY 1 ORDER BY 1"
    assert json.loads(floeberg("sql", "--json", query, cwd=tiered).stdout) == [{"p": 0, "n": 200}, {"p": 1, "n": 200}]
    refused = floeberg("sql", "SELECT nothing FROM nowhere", cwd=tiered)
    assert refused.returncode == 2
    assert "DuckDB refuses the query" in refused.stderr


def test_fsck_is_good_until_a_file_is_damaged(tiered: Path) -> None:
    done = floeberg("fsck", "--json", cwd=tiered)
    assert done.returncode == 0, done.stdout
    assert {table["topic"]: table["record_count"] for table in json.loads(done.stdout)["tables"]} == {
        "cmd.orders": ORDERS,
        "cmd-notes": 3,
    }
    file = next((tiered / "floeberg-data" / "warehouse").rglob("cmd-notes*/**/*.parquet"))
    whole = file.read_bytes()
    file.write_bytes(whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])
    try:
        damaged = floeberg("fsck", "cmd-notes", cwd=tiered)
    finally:
        file.write_bytes(whole)
    assert damaged.returncode == 1
    assert "damaged_file" in damaged.stdout
    assert file.name in damaged.stdout


def test_check_finds_all_well_and_then_names_each_thing_that_is_not(tiered: Path, tmp_path: Path) -> None:
    good = floeberg("check", "--no-spark", cwd=tiered)
    assert good.returncode == 0, good.stdout
    assert "all is well" in good.stdout, good.stdout
    (tmp_path / "wrong.toml").write_text(
        f'[broker]\nbootstrap = "127.0.0.1:1"\nlog_dirs = ["{tmp_path}"]\n'
        '[[topics]]\nvalue = "avro"\nschemas = "no-folder"\n'
    )
    wrong = floeberg("-c", tmp_path / "wrong.toml", "check", "--no-spark", "--json", cwd=tmp_path)
    assert wrong.returncode == 1
    checks = {check["name"]: check for check in json.loads(wrong.stdout)["checks"]}
    bad = {name for name, check in checks.items() if check["verdict"] == "wrong"}
    assert bad == {"broker", f"log directory {tmp_path}", "schemas of *"}
    assert all(checks[name]["next_step"] for name in bad)


def test_plugin_writes_the_jar_and_prints_the_brokers_lines(tiered: Path, tmp_path: Path) -> None:
    done = floeberg("plugin", "-o", tmp_path, cwd=tiered)
    if "not built" in done.stderr:
        pytest.skip("the jar is not built: make jar")
    lines = dict(line.split("=", 1) for line in done.stdout.splitlines() if not line.startswith("#"))
    assert Path(lines["remote.log.storage.manager.class.path"]).read_bytes()[:2] == b"PK"
    token_file = Path(lines["rsm.config.floeberg.token.file"])
    assert token_file == tmp_path / "floeberg-plugin.token"
    token = token_file.read_text().strip()
    assert token == (tiered / "floeberg-data" / "log_door.token").read_text()
    assert token_file.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "floeberg-plugin.jar").stat().st_mode & 0o777 == 0o644
    assert token not in done.stdout + done.stderr
    assert lines["remote.log.metadata.manager.listener.name"] == "PLAINTEXT"
    assert lines["rlmm.config.remote.log.metadata.topic.replication.factor"] == "1"
    assert "remote.storage.enable=true" in done.stderr
    as_json = json.loads(floeberg("plugin", "-o", tmp_path, "--json", cwd=tiered).stdout)
    assert as_json["server_properties"] == lines
    assert token not in str(as_json)
    shown = floeberg("plugin", "-o", tmp_path, "--show-token", cwd=tiered).stdout
    assert f"rsm.config.floeberg.token={token}\n" in shown
    assert "token.file" not in shown
    assert (as_json["node_id"], as_json["problem"]) == (1, None)


def test_plugin_without_the_broker_marks_what_only_the_broker_knows(tiered: Path, tmp_path: Path) -> None:
    (tmp_path / "away.toml").write_text(f'[broker]\nbootstrap = "127.0.0.1:1"\nlog_dirs = ["{tmp_path}"]\n')
    done = floeberg("-c", tmp_path / "away.toml", "plugin", "-o", tmp_path, cwd=tmp_path)
    if "not built" in done.stderr:
        pytest.skip("the jar is not built: make jar")
    assert done.returncode == 1
    assert "127.0.0.1:1" in done.stderr
    printed = done.stdout.splitlines()
    assert "The broker was not asked" in printed[0]
    unknown = printed.index("remote.log.metadata.manager.listener.name=<listener>")
    assert printed[unknown - 1].startswith("# to fill in: the listener")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["cat", "no-such-topic"], "topics with a table: cmd-notes, cmd.orders"),
        (["-c", "no.toml", "status"], "no such settings file"),
        (["sql", "--engine", "abacus", "SELECT 1"], "duckdb or spark"),
        (["tier"], "--once"),
        (["frobnicate"], "No such command"),
    ],
)
def test_wrong_usage_is_told_in_a_line_or_two_with_exit_code_2(tiered: Path, arguments: list[str], told: str) -> None:
    done = floeberg(*arguments, cwd=tiered)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
