"""What the page is made of: small, complete, safe, and right without its script."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from engine.clock import SystemClock
from engine.errors import Corrupt, Unavailable
from serving.status.daemon_status import FILE_REASONS, DaemonStatus
from serving.status.head_texts import NONE
from serving.status.history import STEP_MS, History, Sample
from serving.status.metrics import DaemonLook, Metrics
from serving.status.overview import TOPIC_COLUMNS
from serving.status.page_files import CONTENT_TYPES, FOLDER, POLICY
from serving.status.page_source import PageSource
from serving.status.routes import status_routes
from serving.status.runbook import anchor_of
from serving.status.told_problems import REMEMBERED, ProblemMemory, ToldProblem, told_problems
from tests.serving.status.page_stage import PageStage, SteppedClock, made_up
from tests.tiering.tiering_world import SettableClock

RUNBOOK = Path(__file__).parents[3] / "docs" / "runbook.md"
LIGHT_BYTES = 100_000


def client_of(stage: PageStage) -> TestClient:
    def now() -> DaemonStatus:
        return stage.status

    source = PageSource(now, clock=SteppedClock(), history=stage.history)
    return TestClient(Starlette(routes=status_routes(now, Metrics(lambda: DaemonLook(status=now())), source)))


def first_load(client: TestClient, encoding: str = "gzip") -> dict[str, bytes]:
    """Everything that a browser gets until the page is complete, by path, as it is on the wire."""
    html = client.get("/").text
    files = re.findall(r'(?:href|src)="(page/[^"]+)"', html)
    imported = re.findall(r'^import .* from "\./(.+)";$', (FOLDER / "page.js").read_text(), re.MULTILINE)
    assert imported
    asked = ("/page/overview?since=&most=20", "/page/history?hours=3")
    paths = ["/", *(f"/{file}" for file in dict.fromkeys(files)), *(f"/page/{name}" for name in imported), *asked]
    found = {}
    for path in paths:
        with client.stream("GET", path, headers={"Accept-Encoding": encoding}) as answer:
            assert answer.status_code == 200
            found[path] = b"".join(answer.iter_raw())
    return found


@pytest.mark.parametrize(("topics", "partitions"), [(10, 100), (1_000, 1)])
def test_thousand_partitions_weigh_less_than_a_hundred_kilobytes(topics: int, partitions: int) -> None:
    client = client_of(made_up(topics, partitions))
    plain, compressed = (sum(map(len, first_load(client, encoding).values())) for encoding in ("identity", "gzip"))
    assert plain < LIGHT_BYTES
    assert compressed < LIGHT_BYTES // 2
    rest = client.get("/page/partitions", params={"topic": "orders"}).json()
    assert len(rest["partitions"]) == partitions == rest["all"]


def test_second_look_brings_only_topics_that_changed_and_a_topic_that_went_all_of_them() -> None:
    stage = made_up(20, 2)
    client = client_of(stage)
    first = client.get("/page/overview").json()
    assert first["whole"]
    assert len(first["topics"]) == 20
    assert first["texts"]["stored_more"] == "20 topics, 40 partitions"
    stage.change("orders", 1, stable_end=10**9)
    second = client.get("/page/overview", params={"since": first["version"]}).json()
    assert not second["whole"]
    assert [row[0] for row in second["topics"]] == ["orders"]
    assert second["topics"][0][TOPIC_COLUMNS.index("local")] > 9 * 10**8
    # Whoever missed an answer gets what changed since theirs.
    third = client.get("/page/overview", params={"since": first["version"]}).json()
    assert [row[0] for row in third["topics"]] == ["orders"]
    stage.status = replace(stage.status, partitions=stage.status.partitions[2:])
    fourth = client.get("/page/overview", params={"since": third["version"]}).json()
    assert (fourth["whole"], len(fourth["topics"])) == (True, 19)
    for other in ("", "x-1", "anothr-3", first["version"] + "9", "-", "1"):
        assert client.get("/page/overview", params={"since": other}).json()["whole"]


def test_first_look_may_ask_for_the_topics_that_need_one_alone_and_learns_how_many_there_are() -> None:
    stage = made_up(30, 1)
    stage.change("prices.1", 0, problem="bad", problem_kind="corrupt")
    client = client_of(stage)
    first = client.get("/page/overview", params={"since": "", "most": "3"}).json()
    names = [row[0] for row in first["topics"]]
    everyone = sorted(part.topic for part in stage.status.partitions)
    assert names == ["prices.1", *[name for name in everyone if name != "prices.1"][:2]]
    assert first["all"] == 30
    stage.change("sessions.2", 0, stable_end=10**9)
    second = client.get("/page/overview", params={"since": first["version"], "most": "3"}).json()
    assert [row[0] for row in second["topics"]] == ["sessions.2"]


def test_all_who_look_within_two_seconds_get_one_answer() -> None:
    asked: list[int] = []
    stage, clock = made_up(1, 1), SettableClock()

    def status() -> DaemonStatus:
        asked.append(1)
        return stage.status

    source = PageSource(status, clock=clock)
    for _ in range(5):
        source.overview(None)
        source.partitions("orders", first=0, count=10)
    assert len(asked) == 1
    clock.ahead_ms += 60_000
    source.overview(None)
    assert len(asked) == 2


def test_answer_that_takes_long_to_make_is_made_less_often() -> None:
    asked: list[int] = []
    stage, clock = made_up(1, 1), SettableClock()

    def status() -> DaemonStatus:
        asked.append(1)
        clock.ahead_ms += 200
        return stage.status

    source = PageSource(status, clock=clock)
    source.overview(None)
    clock.ahead_ms += 9_000
    source.overview(None)
    assert len(asked) == 1
    clock.ahead_ms += 100_000
    source.overview(None)
    assert len(asked) == 2


def test_partitions_come_in_pages_and_those_with_a_problem_first() -> None:
    stage = made_up(2, 30)
    stage.change("orders", 17, problem="bad", problem_kind="corrupt")
    client = client_of(stage)
    pages = [
        client.get("/page/partitions", params={"topic": "orders", "first": first, "count": 20}).json()
        for first in (0, 20)
    ]
    numbers = [row[0] for page in pages for row in page["partitions"]]
    assert numbers == [17, *(number for number in range(30) if number != 17)]
    assert pages[0]["partitions"][0][-1] == "partition-stopped"
    odd = client.get("/page/partitions", params={"topic": "gone", "first": "-1", "count": "x" * 50})
    assert odd.json()["partitions"] == []


def test_page_without_script_names_problems_and_totals_escaped() -> None:
    stage = made_up(3, 2)
    stage.change("orders", 0, topic="<script>", problem="bad & worse. Next: look <here>", problem_kind="corrupt")
    text = client_of(stage).get("/").text
    assert "<h3>bad &amp; worse</h3>" in text
    assert "look &lt;here&gt;" in text
    assert "topic &lt;script&gt;, partition 0" in text
    assert "href='runbook#partition-stopped'" in text
    assert "4 topics, 6 partitions" in text
    assert "needs a look" in text
    assert "<script>" not in text


def test_one_of_a_kind_is_told_in_the_singular_and_more_in_the_plural() -> None:
    for topics, partitions, words in ((1, 1, "1 topic, 1 partition<"), (1, 2, "1 topic, 2 partitions<")):
        assert f'data-text="stored_more">{words}' in client_of(made_up(topics, partitions)).get("/").text
    stage = made_up(1, 1)
    for commits, words in ((1, ">1 commit since"), (1_200, ">1,200 commits since")):
        stage.status = replace(stage.status, commit_count=commits)
        assert words in client_of(stage).get("/").text


def test_files_larger_than_their_log_are_no_saving_and_tables_nobody_looked_at_have_no_size() -> None:
    stage = made_up(1, 1)
    assert re.search(r'data-text="saved">\d\d%<', client_of(stage).get("/").text)
    stage.history = History()
    for step, (log_bytes, file_bytes) in enumerate(((0, 0), (100, 700))):
        time_ms = stage.status.now_ms // STEP_MS * STEP_MS - step * STEP_MS
        stage.history.keep(Sample(time_ms=time_ms, log_bytes=log_bytes, file_bytes=file_bytes))
        assert f'data-text="saved">{"nothing yet" if step else NONE}<' in client_of(stage).get("/").text
    assert 'data-text="table">3.0 GiB<' in client_of(stage).get("/").text
    stage.status = replace(stage.status, sweeps=())
    assert f'data-text="table">{NONE}<' in client_of(stage).get("/").text


def test_everything_is_sent_with_its_type_and_may_load_nothing_from_elsewhere() -> None:
    client = client_of(made_up(1, 1))
    for path in (*first_load(client), "/runbook"):
        answer = client.get(path)
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        name = path.removeprefix("/page/").split("?")[0]
        assert answer.headers["content-type"] == CONTENT_TYPES.get(name, answer.headers["content-type"])
        assert answer.headers["cache-control"].startswith("public, max-age") == ("?v=" in path)
    for name in ("index.html", "page.js", "partitions.js", "nodes.js", "words.js", "page.css"):
        text = (FOLDER / name).read_text()
        assert not re.search(r"https?://|//[a-z]+\.|innerHTML|style=", text), name


def test_file_of_another_version_is_not_kept_and_one_that_is_known_is_not_sent_again() -> None:
    client = client_of(made_up(1, 1))
    (path,) = re.findall(r'src="(page/page\.js\?v=[^"]+)"', client.get("/").text)
    known = client.get(f"/{path}")
    assert client.get("/page/page.js?v=old").headers["cache-control"] == "no-cache"
    again = client.get("/page/page.js", headers={"If-None-Match": known.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    plain = client.get(f"/{path}", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.content == known.content
    assert client.get("/page/page.html").status_code == 404


def test_problem_is_told_by_its_parts_and_alike_ones_once() -> None:
    error = Corrupt("A CRC is wrong", topic="orders", partition=3, offset=17, file="/x (old).log", next_step="look")
    told = ToldProblem.of(str(error), entry="damage")
    assert (told.text, told.next_step) == (error.problem, "look")
    assert told.places == (error.where,)
    assert ToldProblem.of("anything else (at all)", entry="damage").text == "anything else (at all)"
    full = [str(Unavailable("no space left", topic="orders", partition=number)) for number in range(8)]
    stage = made_up(1, 8)
    for number, text in enumerate(full):
        stage.change("orders", number, problem=text, problem_kind="unavailable")
    stage.status = replace(stage.status, problems=("the broker is away",), problem_kinds=("unavailable",))
    first, second = told_problems(stage.status)
    assert (first.text, first.entry, first.kind) == ("the broker is away", "daemon-problem", "unavailable")
    assert (second.text, second.entry, second.count) == ("no space left", "partition-failing", 8)
    assert second.places == tuple(f"topic orders, partition {number}" for number in range(3))


def test_problem_that_is_over_stays_told_of_and_the_number_of_these_is_bounded() -> None:
    stage = made_up(1, 1)
    client = client_of(stage)
    stage.change("orders", 0, problem="it burns", problem_kind="unavailable")
    assert [one["text"] for one in client.get("/page/overview").json()["problems"]] == ["it burns"]
    stage.change("orders", 0, problem=None)
    later = client.get("/page/overview").json()
    assert later["problems"] == []
    assert [one["text"] for one in later["over"]] == ["it burns"]
    memory = ProblemMemory()
    for number in range(2 * REMEMBERED):
        memory.note([ToldProblem(text=str(number), next_step=None, entry="lag")], number)
    assert [one.problem.text for one in memory.newest()] == [
        str(n) for n in reversed(range(REMEMBERED, 2 * REMEMBERED))
    ]


def test_every_entry_that_problems_point_to_is_in_the_runbook_page() -> None:
    served = client_of(made_up(1, 1)).get("/runbook").text
    anchors = {anchor_of(title) for title in re.findall(r"^#+ (.+)$", RUNBOOK.read_text(), re.MULTILINE)}
    source = (Path(__file__).parents[3] / "serving" / "status" / "told_problems.py").read_text()
    entries = set(re.findall(r'(?:entry=|entry = |else )"([a-z-]+)"|^        "([a-z-]+)": ', source, re.MULTILINE))
    named = {name for pair in entries for name in pair if name}
    assert {"damage", "at-risk", "partition-stopped", "partition-failing", "daemon-problem"} <= named
    assert named <= anchors
    for anchor in anchors | set(re.findall(r"\]\(#([a-z0-9-]+)\)", RUNBOOK.read_text())):
        assert f'id="{anchor}"' in served
    assert "<table>" in served


def test_script_has_words_for_every_reason_why_a_file_is_there() -> None:
    script = (FOLDER / "page.js").read_text()
    words = script.split("const REASONS = {")[1].split("};")[0]
    assert set(re.findall(r"(\w+): \"", words)) == set(FILE_REASONS)
    styles = (FOLDER / "page.css").read_text()
    assert all(f".part.{reason}" in styles for reason in FILE_REASONS)


def test_scripts_and_styles_are_sent_as_they_are_written_but_for_comments_and_white_space() -> None:
    client = client_of(made_up(1, 1))
    for name in set(CONTENT_TYPES) - {"icon.svg"}:
        written, sent = (FOLDER / name).read_text(), client.get(f"/page/{name}").text
        assert len(sent) <= len(written)
        code = re.sub(r"^\s*//.*$|/\*[^!].*?\*/", "", written, flags=re.MULTILINE)
        assert re.sub(r"\s+", "", sent) == re.sub(r"\s+", "", code), name


def test_answers_are_json_that_a_client_without_compression_reads_too() -> None:
    client = client_of(made_up(30, 1))
    packed = client.get("/page/overview", headers={"Accept-Encoding": "gzip"})
    plain = client.get("/page/overview", headers={"Accept-Encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
    assert json.loads(plain.content).keys() == packed.json().keys()
    assert gzip.decompress(gzip.compress(plain.content)) == plain.content
    assert SystemClock().now_ms() - plain.json()["now_ms"] < 60_000
