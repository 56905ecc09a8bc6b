"""The plugin's Java tests (plugin/test), compiled and run with the JDK against Kafka's own jars, and its jar."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from floeberg.http.server import HttpServer
from floeberg.java.jdk import java_command
from floeberg.java.maven_jars import KAFKA_BROKER, KAFKA_STORAGE_API, class_path, resolve_jars
from floeberg.java.plugin_jar import write_token
from floeberg.processes.tied_process import tied
from floeberg.settings.doors import Listen, TlsSettings
from serving.log.commit_signal import CommitSignal
from serving.log.door import create_log_door
from tests.serving.log.backend_suite import sample_records
from tests.serving.log.kept_log import KeptLog
from tests.support.certificates import Authority

PLUGIN = Path(__file__).resolve().parents[2] / "plugin"
TEST_SOURCES = sorted((PLUGIN / "test").rglob("*.java"))
TESTS = re.compile(r"@Test\s+void (\w+)\(")
JAVA_TESTS = [(path.stem, name) for path in TEST_SOURCES for name in TESTS.findall(path.read_text())]

pytestmark = pytest.mark.xdist_group("plugin")


@pytest.fixture(scope="session")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plugin") / "floeberg-plugin.jar"
    build(path)
    return path


def build(jar: Path) -> None:
    subprocess.run([sys.executable, PLUGIN / "build.py", "--jar", jar], check=True, timeout=120)


@pytest.fixture(scope="session")
def run_path(jar: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path of the Java tests, compiled."""
    classes = tmp_path_factory.mktemp("plugin-tests")
    javac = Path(java_command()).resolve().with_name("javac")
    compile_path = class_path((jar, *resolve_jars(KAFKA_STORAGE_API)))
    # A compiler that runs for a second gains nothing from its JVM's second compiler.
    compiler = [javac, "-J-XX:TieredStopAtLevel=1", "--release", "11", "-encoding", "UTF-8"]
    subprocess.run([*compiler, "-cp", compile_path, "-d", classes, *TEST_SOURCES], check=True, timeout=120)
    return class_path((classes, jar, *resolve_jars(KAFKA_BROKER)))


@pytest.fixture(scope="session")
def outcomes(run_path: str) -> dict[str, str]:
    """What each Java test came to: empty, or the stack of its failure. One JVM runs all of them."""
    test_classes = sorted({f"io.floeberg.kafka.{stem}" for stem, _ in JAVA_TESTS})
    command = [java_command(), "-XX:TieredStopAtLevel=1", "-cp", run_path, "io.floeberg.kafka.TestRunner"]
    done = subprocess.run(tied([*command, *test_classes]), capture_output=True, text=True, check=True, timeout=180)
    told = [line.split(" ", 2) for line in done.stdout.splitlines()]
    return {words[1]: " ".join(words[2:]) for words in told if words[0] in {"ok", "failed"}}


@pytest.mark.parametrize(("test_class", "test"), JAVA_TESTS, ids=lambda value: value)
def test_java(outcomes: dict[str, str], test_class: str, test: str) -> None:
    assert test in outcomes, f"{test_class}.{test} did not run"
    assert not outcomes[test], outcomes[test].replace(" | ", "\n")


def test_plugin_copies_and_reads_through_the_daemons_own_tls(run_path: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.issue(tmp_path)
    tls = TlsSettings(cert_file=tmp_path / "door.pem", key_file=tmp_path / "door.key")
    log = KeptLog(sample_records())
    log.committed = 5000
    routes = create_log_door(log, tokens=["another", "the-token"], commits=CommitSignal())
    token_file = write_token(tmp_path, "the-token")
    with HttpServer(routes, Listen(host="127.0.0.1", port=0), setting="x", tls=tls) as door:

        def asked(*ca_file: Path) -> subprocess.CompletedProcess[str]:
            command = [java_command(), "-XX:TieredStopAtLevel=1", "-cp", run_path, "io.floeberg.kafka.AskDoor"]
            words = [*command, door.url, str(token_file), *map(str, ca_file)]
            return subprocess.run(tied(words), capture_output=True, text=True, timeout=60, check=False)

        done = asked(authority.ca_file)
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) > 1000
        assert log.kept, "the auxiliary state of the copy came through"
        assert "unable to find valid certification path" in asked().stderr


def test_jar_of_the_same_sources_is_the_same_bytes(jar: Path, tmp_path: Path) -> None:
    build(tmp_path / "again.jar")
    assert (tmp_path / "again.jar").read_bytes() == jar.read_bytes()


def test_jar_holds_only_the_plugins_classes_and_runs_on_java_11(jar: Path) -> None:
    with zipfile.ZipFile(jar) as archive:
        names = [name for name in archive.namelist() if name != "META-INF/MANIFEST.MF"]
        assert names
        assert all(name.startswith("io/floeberg/kafka/") and name.endswith(".class") for name in names)
        # A class file's major version is its 7th and 8th byte; 55 is Java 11 (JVM specification, 4.1).
        assert {archive.read(name)[6:8] for name in names} == {(55).to_bytes(2, "big")}
