"""Settings: what the file and the environment say, and how wrong ones are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.clock import SystemClock
from engine.errors import Invalid
from engine.formats.csv.dialect import CsvDialect, CsvQuote, csv_columns
from engine.table.windows import Clustering
from floeberg.settings import Settings
from floeberg.settings import file as settings_file
from floeberg.settings.file import find_settings_file, load_settings
from floeberg.settings.rooms import topic_rules
from floeberg.settings.schema_sources import SchemaSources
from floeberg.setup import file_checks
from floeberg.setup.check_result import Verdict
from topics.retention_rule import Keep, RetentionRule

LEAST = '[broker]\nbootstrap = "localhost:9092"\nlog_dirs = ["/kafka"]\n'
AVRO = '[[topics]]\nvalue = "avro"\nschemas = '
EXAMPLE = Path(__file__).parents[2] / "examples" / "floeberg.toml"


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FLOEBERG_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)


def load(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / "floeberg.toml"
    file.write_text(text)
    return load_settings(file)


def test_bootstrap_and_log_dirs_are_enough(tmp_path: Path) -> None:
    settings = load(tmp_path, LEAST)
    assert settings.broker.log_dirs == (Path("/kafka"),)
    assert settings.data_dir == tmp_path / "floeberg-data"
    assert str(settings.log_door.listen) == "127.0.0.1:7810"
    assert [(topic.name, topic.value, topic.key) for topic in settings.topics] == [("*", "auto", "string")]


def test_example_file_is_valid_and_its_commented_lines_are_the_defaults(tmp_path: Path) -> None:
    given = EXAMPLE.read_text()
    settings = load(tmp_path, given)
    assert settings.topics[0].schemas == str(tmp_path / "schemas")
    shown = [
        line.removeprefix("# ") for line in given.splitlines() if line.startswith(("# [log", "# [tab", "# listen"))
    ]
    assert load(tmp_path, LEAST + "\n".join(shown)) == load(tmp_path, LEAST)


def test_data_of_a_settings_file_in_etc_is_elsewhere_unless_it_is_there_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings_file, "CONFIGURATION_ROOT", tmp_path / "etc")
    (etc := tmp_path / "etc" / "floeberg").mkdir(parents=True)
    assert load(etc, LEAST).data_dir == Path("/var/lib/floeberg")
    assert load(etc, 'data_dir = "floeberg-data"\n' + LEAST).data_dir == etc / "floeberg-data"
    assert load(tmp_path, LEAST).data_dir == tmp_path / "floeberg-data"
    monkeypatch.setenv("FLOEBERG_DATA_DIR", "/elsewhere")
    assert load(etc, LEAST).data_dir == Path("/elsewhere")
    monkeypatch.delenv("FLOEBERG_DATA_DIR")
    (etc / "floeberg-data").mkdir()
    found = load(etc, LEAST)
    assert found.data_dir == etc / "floeberg-data"
    monkeypatch.setattr(file_checks, "CONFIGURATION_ROOT", tmp_path / "etc")
    told = [one.message for one in file_checks.check_files(found) if one.verdict is Verdict.NOTE]
    assert "a new set-up has it in /var/lib/floeberg" in told[-1]


def test_tokens_are_texts_lists_files_and_variables_and_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("of-the-file\n")
    monkeypatch.setenv("A_TOKEN", "of-the-variable")
    several = f'["plain", {{file = "{tmp_path}/token"}}, {{env = "A_TOKEN"}}]'
    settings = load(tmp_path, LEAST + f'[table_door]\ntokens = {several}\n[log_door]\ntoken = {{env = "A_TOKEN"}}\n')
    assert settings.table_door.known_tokens == ("plain", "of-the-file", "of-the-variable")
    assert settings.log_door.known_tokens == ("of-the-variable",)
    assert not any(secret in f"{settings!r}{settings}" for secret in ("plain", "of-the-"))
    monkeypatch.setenv("FLOEBERG_TABLE_DOOR__TOKENS", "one,two")
    monkeypatch.setenv("FLOEBERG_TABLE_DOOR__TLS__CERT_FILE", "c.pem")
    monkeypatch.setenv("FLOEBERG_TABLE_DOOR__TLS__KEY_FILE", "/k.pem")
    door = load(tmp_path, LEAST).table_door
    assert door.known_tokens == ("one", "two")
    assert door.tls is not None
    assert (door.tls.cert_file, door.tls.key_file, door.tls.ca_file) == (tmp_path / "c.pem", Path("/k.pem"), None)


def test_retention_without_bounds_is_the_brokers_for_the_stream_and_for_ever_for_the_table(tmp_path: Path) -> None:
    def rule(retention: str) -> RetentionRule:
        return load(tmp_path, LEAST + f"[[topics]]\n{retention}\n").topics[0].retention.rule

    assert rule("") == RetentionRule()
    assert rule("retention = {table_ms = 5}") == RetentionRule(table=Keep(age_ms=5))
    kept = Keep(age_ms=5, size_bytes=7)
    assert rule("retention = {stream_ms = 5, stream_bytes = 7, table_ms = -1}") == RetentionRule(stream=kept)
    assert rule("retention = {stream_ms = -1}") == RetentionRule(stream=Keep())


def test_environment_alone_is_enough_and_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOEBERG_BROKER__BOOTSTRAP", "other:1")
    monkeypatch.setenv("FLOEBERG_BROKER__LOG_DIRS", "/a, /b")
    monkeypatch.setenv("FLOEBERG_BROKER__SECURITY__PROTOCOL", "SSL")
    monkeypatch.setenv("FLOEBERG_CATALOG__S3__ACCESS_KEY_ID", "id")
    monkeypatch.setenv("FLOEBERG_TABLE_DOOR__LISTEN", "0.0.0.0:80")
    monkeypatch.setenv("FLOEBERG_TOPICS", '[{"name": "t", "value": "string"}]')
    for settings in (load_settings(None), load(tmp_path, LEAST)):
        assert settings.broker.bootstrap == "other:1"
        assert settings.broker.log_dirs == (Path("/a"), Path("/b"))
        assert settings.broker.security == {"security.protocol": "SSL"}
        assert settings.catalog.properties == {"s3.access-key-id": "id"}
        assert settings.table_door.listen.url == "http://127.0.0.1:80"
        assert settings.topics[0].value == "string"


def test_dotted_names_mean_the_same_quoted_or_not(tmp_path: Path) -> None:
    plain = load(tmp_path, LEAST + 'sasl.username = "me"\n[spark]\nconf.driver.memory = "1g"\n')
    quoted = load(tmp_path, LEAST + '"sasl.username" = "me"\n[spark]\nconf = {"spark.driver.memory" = "1g"}\n')
    assert plain.broker.security == quoted.broker.security == {"sasl.username": "me"}
    assert plain.spark.properties == quoted.spark.properties == {"spark.driver.memory": "1g"}


def test_csv_lines_are_declared_with_the_topic(tmp_path: Path) -> None:
    text = """
        [[topics]]
        value = "csv"
        csv = {columns = ["id:long", "price:decimal(10,2)"], delimiter = "\\t", time_separator = " ", quote = "none"}
        key = "csv"
        key_csv = {columns = ["id:long"]}
        """
    (rule,) = topic_rules(load(tmp_path, LEAST + text), SchemaSources(tmp_path, SystemClock()))
    assert CsvDialect.of(rule.codec_options) == CsvDialect(
        columns=csv_columns('["id:long", "price:decimal(10,2)"]'),
        delimiter="\t",
        time_separator=" ",
        quote=CsvQuote.NONE,
    )
    assert rule.layout.key == "csv"
    assert CsvDialect.of(rule.key_options) == CsvDialect(columns=csv_columns('["id:long"]'))


def test_columns_that_a_topic_is_clustered_by_reach_its_rule(tmp_path: Path) -> None:
    text = '[[topics]]\nname = "a"\ncluster_by = ["region", "kafka_key"]\ncluster_window_rows = 1000000\n[[topics]]\n'
    clustered, plain = topic_rules(load(tmp_path, LEAST + text), SchemaSources(tmp_path, SystemClock()))
    assert clustered.clustering == Clustering(columns=("region", "kafka_key"), window_rows=1_000_000)
    assert plain.clustering is None


def test_whether_the_newest_records_have_a_table_reaches_the_rule(tmp_path: Path) -> None:
    text = "".join(
        f'[[topics]]\nname = "{name}"\n{setting}\n'
        for name, setting in (("a", "latest_by_key = true"), ("b", "latest_by_key = false"), ("c", ""))
    )
    rules = topic_rules(load(tmp_path, LEAST + text), SchemaSources(tmp_path, SystemClock()))
    assert [rule.latest_by_key for rule in rules] == [True, False, None]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", r"broker.*is missing"),
        ('[broker]\nbootstrap = "b:1"\n', r"\[broker\] log_dirs \(FLOEBERG_BROKER__LOG_DIRS\): is missing"),
        ('[broker]\nbootstrap = "b:1"\nlog_dirs = []\n', r"\[broker\] log_dirs .*at least 1 item"),
        (LEAST + "[borker]\n", "borker: is no setting"),
        (LEAST + '[log_door]\nlisten = "7810"\n', r'\[log_door\] listen .*write it as "host:port"'),
        (LEAST + '[log_door]\ntokens = ["a b"]\n', r"tokens.0 .*printable ASCII without spaces, and not empty \("),
        (LEAST + '[table_door]\ntokens = [""]\n', r"tokens.0 .*printable ASCII without spaces, and not empty"),
        (LEAST + '[log_door]\ntoken = "a"\ntokens = ["b"]\n', "log_door .*set token or tokens, not both"),
        (LEAST + '[table_door]\ntokens = [{env = "NO_SUCH"}]\n', "tokens.0 .*the environment has no NO_SUCH"),
        (LEAST + '[metrics]\naccess = "all"\n', r"\[metrics\] access .*'tokens' or 'open'"),
        (LEAST + '[table_door.tls]\ncert_file = "c"\n', r"\[table_door\] tls.key_file .*is missing"),
        (LEAST + "[log_door]\nport = 3\n", r"\[log_door\] port .*is no setting"),
        (LEAST + "[tiering]\nmax_tasks_per_cycle = 0\n", r"max_tasks_per_cycle .*greater than 0, not 0"),
        (LEAST + "[history]\ngrace_ms = 60000\n", r"grace_ms .*greater than or equal to 3600000, not 60000"),
        (LEAST + '[[topics]]\nname = "a"\nvalue = "avro"\n', r"\[\[topics\]\] number 1: .*needs schemas"),
        (LEAST + '[[topics]]\n[[topics]]\nvalue = "xml"\n', r"number 2, value: it is .*\"raw\", not 'xml'"),
        (LEAST + '[[topics]]\nvalue = "protobuf"\n', 'value = "protobuf" needs schemas'),
        (LEAST + '[[topics]]\nkey = "avro"\n', 'key = "avro" needs schemas'),
        (LEAST + '[[topics]]\nvalue = "csv"\n', r'value = "csv" and csv = .* belong together'),
        (LEAST + '[[topics]]\nkey_csv = {columns = ["a:int"]}\n', r'key = "csv" and key_csv = .* belong together'),
        (LEAST + '[[topics]]\nvalue = "csv"\ncsv = {columns = ["a:money"]}\n', 'csv: a CSV column is "name:type"'),
        (LEAST + '[[topics]]\nvalue = "csv"\ncsv = {columns = ["a:int"], delim = ";"}\n', "csv, delim: is no setting"),
        (LEAST + '[[topics]]\nvalue = "csv"\ncsv = ["a:int"]\n', "csv: it is a table of options"),
        (LEAST + "[[topics]]\ncolour = 1\n", r"\[\[topics\]\] number 1: colour is no setting"),
        (LEAST + "[[topics]]\nfreshness_ms = 0\n", "freshness_ms: it is milliseconds, or .closed. .*, not 0"),
        (LEAST + "[[topics]]\nfreshness_ms = true\n", "freshness_ms: it is milliseconds, .*, not True"),
        (LEAST + '[[topics]]\nfreshness_ms = "5s"\n', "freshness_ms: it is milliseconds, .*, not '5s'"),
        (LEAST + '[[topics]]\npartition_by = ["a"]\n', "partition_by is no setting: .*cluster_by does by values"),
        (LEAST + "[[topics]]\nretention = 1\n", "number 1, retention: .*table"),
        (LEAST + "[[topics]]\nretention = {table_ms = 0}\n", "retention, table_ms: .*above 0, or -1 .*, not 0"),
        (LEAST + '[[topics]]\nretention = {table_ms = "7d"}\n', "retention, table_ms: it is a whole number.*'7d'"),
        (LEAST + "[[topics]]\nretention = {stream_bytes = true}\n", "retention, stream_bytes: .*not True"),
        (LEAST + "[[topics]]\nretention = {ms = 5}\n", "retention, ms: is no setting"),
        (LEAST + '[[topics]]\ncluster_by = ["a", "a"]\n', "cluster_by: .*each once"),
        (LEAST + '[[topics]]\ncluster_by = [""]\n', "cluster_by.*at least 1 character"),
        (LEAST + "[[topics]]\ncluster_window_rows = 300000\n", "makes sense with cluster_by"),
        (LEAST + '[[topics]]\ncluster_by = ["a"]\ncluster_window_rows = 65536\n', "greater than 65536, not 65536"),
        (LEAST + '[[topics]]\ncluster_by = ["a"]\ncluster_window_rows = 2000000\n', "equal to 1048576, not 2000000"),
        (LEAST + '[[topics]]\nkey = "int"\n', r"number 1, key: it is .*\"string\" or \"raw\", not 'int'"),
        (
            LEAST + '[[topics]]\nvalue = "raw"\nschemas = "x"\n',
            'schemas makes sense with values or keys that have some, not with "raw"',
        ),
        (LEAST + '[[topics]]\nvalue = "avro"\nschemas = "x"\ninfer_records = 5\n', 'with value = "json"'),
        (LEAST + '[[topics]]\nunwrap = "debezium"\n', 'unwrap makes sense with "avro", .*, not with "auto"'),
        (LEAST + '[[topics]]\nschemas = "click.json"\n', 'name the format, value = "json": schemas is one file'),
        (LEAST + '[[topics]]\nvalue = "cvs"\n', 'value: it is "auto", "avro", .* or "raw", not \'cvs\''),
        (LEAST + AVRO + '{url = "ftp://h"}\n', "schemas, registry: url begins with http"),
        (LEAST + AVRO + '{url = "http://h", pasword = "x"}\n', "schemas, registry, pasword: is no setting"),
        (LEAST + AVRO + '{url = "http://h", token = "a", user = "b"}\n', "not both"),
        (LEAST + AVRO + '{url = "http://h", token = {env = "FLOEBERG_NO_SUCH"}}\n', "has no FLOEBERG_NO_SUCH"),
        (LEAST + AVRO + '{url = "http://h", token = {file = "/no/such"}}\n', "token: the secret's file can't be read"),
        (LEAST + AVRO + '{url = "http://h", key_file = "k.pem"}\n', "key_file needs cert_file"),
        (LEAST + AVRO + '{url = "http://h", subject_strategy = "topics"}\n', "'topic', 'record' or 'topic_record'"),
        (LEAST + "[[topics]\n", "not TOML.*line 4"),
    ],
)
def test_wrong_setting_is_invalid_and_named_with_what_would_be_right(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(Invalid, match=told) as caught:
        load(tmp_path, text)
    assert caught.value.file == str(tmp_path / "floeberg.toml")


def test_secrets_come_from_the_file_the_environment_or_a_file_of_their_own_and_are_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "password").write_text("s3cret\n")
    monkeypatch.setenv("REGISTRY_PASSWORD", "s3cret")
    places = ['"s3cret"', '{env = "REGISTRY_PASSWORD"}', f'{{file = "{tmp_path / "password"}"}}']
    given = [f'{{url = ["http://a", "http://b"], user = "ana", password = {place}}}' for place in places]
    for source in [*given, '"http://ana:s3cret@a,http://b"']:
        registry = load(tmp_path, LEAST + AVRO + source).topics[0].registry
        assert registry is not None
        assert registry.password is not None
        assert (registry.url, registry.user) == (("http://a", "http://b"), "ana")
        assert registry.password.get_secret_value() == "s3cret"
        assert "s3cret" not in f"{registry!r} {registry} {registry.model_dump()} {registry.model_dump_json()}"


@pytest.mark.parametrize(
    "source",
    [
        '{url = "http://h", token = ["s3cret"]}',
        '{url = ["http://ana:s3cret@a", "http://b"]}',
        '["http://ana:s3cret@a", "http://b"]',
        '{url = "ftp://ana:s3cret@h"}',
        '{url = "http://h", password = {text = "s3cret"}}',
        '{url = "http://h", password = "s3cret"}',
    ],
)
def test_wrong_settings_are_told_without_their_secrets(tmp_path: Path, source: str) -> None:
    with pytest.raises(Invalid) as caught:
        load(tmp_path, LEAST + AVRO + source + "\n")
    assert "s3cret" not in str(caught.value)


def test_certificates_lie_where_the_settings_file_says_and_several_forms_of_schemas_mean_the_same(
    tmp_path: Path,
) -> None:
    table = load(tmp_path, LEAST + AVRO + '{url = "https://h", ca_file = "tls/ca.pem", cert_file = "/c.pem"}\n')
    registry = table.topics[0].registry
    assert registry is not None
    assert (registry.ca_file, registry.cert_file, registry.key_file) == (tmp_path / "tls/ca.pem", Path("/c.pem"), None)
    forms = ['"http://a"', '["http://a"]', '{url = "http://a"}', '{url = ["http://a"]}']
    found = {load(tmp_path, f"{LEAST}{AVRO}{form}\n").topics[0].registry.__repr__() for form in forms}
    assert len(found) == 1


def test_file_is_the_named_one_or_that_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_settings_file(None) is None
    (tmp_path / "floeberg.toml").write_text(LEAST)
    assert find_settings_file(None) == Path("floeberg.toml")
    monkeypatch.setenv("FLOEBERG_CONFIG", str(tmp_path / "other.toml"))
    with pytest.raises(Invalid, match="no such settings file"):
        find_settings_file(None)


@pytest.mark.parametrize("master", ["local", "local[*]", "local[3]", "local[3,2]"])
def test_spark_is_this_machines(tmp_path: Path, master: str) -> None:
    assert load(tmp_path, LEAST + f'[spark]\nmaster = "{master}"\n').spark.master == master


@pytest.mark.parametrize("master", ["spark://elsewhere:7077", "yarn", "k8s://x", "", "local[x]"])
def test_spark_elsewhere_is_refused_for_it_could_not_read_the_brokers_segments(tmp_path: Path, master: str) -> None:
    with pytest.raises(Invalid, match="local files"):
        load(tmp_path, LEAST + f'[spark]\nmaster = "{master}"\n')
