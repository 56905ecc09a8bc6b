"""The benchmarks run, at a size that says nothing about speed, and write every key that they promise."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.machine import Machine
from bench.measurement import Measurement, ratio
from bench.merging import compacted_sql
from bench.past import commit_rate, growth, history, latest
from bench.past.year import TIMED_COMMITS, cost_of, without_loops, year_of
from bench.past.year_plot import FIGURES, year_plot
from bench.plan import Scale, run
from bench.report import headlines, text_table, write_json, write_page
from bench.round_program import RoundProgram
from bench.running import freshness
from bench.tiering import small_ranges

PROMISED_WITHOUT_THE_NATIVE_STAGE = {
    "tiering.mib_per_cpu_second",
    "tiering.share_of_parquet_write",
    "replay.mb_per_second_core",
    "fetch.cold_mib_read",
    "fetch.cold_cpu_ms",
    "fetch.cold_mib_read_p95",
    "fetch.cold_cpu_ms_p95",
    "warehouse.share_of_zstd_log",
    "cycle.idle_ms",
    "cycle.commit_ms",
    "reference.mb_per_second_core",
    "reference.ms_per_mib",
    "replay.share_of_reference",
    "fetch.cold_times_reference",
    "cycle.commit_times_reference",
    "cycle.idle_times_reference",
}
TINY = Scale(order_count=40_000, segment_bytes=1 << 20, repetitions=1, fetches=2)


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_bench_at_a_tiny_size_measures_every_promised_key(tmp_path: Path) -> None:
    said: list[str] = []
    measurements = run(tmp_path / "work", TINY, only={"stages", "tiering"}, say=said.append)
    found = {measurement.key: measurement for measurement in measurements}
    assert found.keys() >= PROMISED_WITHOUT_THE_NATIVE_STAGE
    assert all(sample > 0 for measurement in measurements for sample in measurement.samples)
    assert {found[key].unit for key in found if found[key].goal} <= {"times", "MiB"}, "no goal is a machine's speed"
    assert said


def test_page_begins_with_the_figures_that_were_measured_and_leaves_the_others_out() -> None:
    def figure(key: str, *samples: float) -> Measurement:
        return Measurement(key=key, title=key, unit="", samples=samples, higher_is_better=True)

    told = headlines([figure("replay.share_of_local_consumer", 0.5, 0.625, 0.7), figure("fetch.cold_mib_read", 1.0)])
    assert "1. **0.625 times as fast** as from local segments" in told
    assert told.count("\n1. ") == 1, "a cold fetch has a second figure, which was not measured"
    shares = [figure("values.avro.share_exact_java", 1.0), figure("values.json.share_exact_dumps", 0.25)]
    assert "**0.250 is the share of records**" in headlines(shares)
    assert "Six figures" not in headlines([])


def test_program_answers_a_round_for_each_that_is_asked_and_says_why_it_ended(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "counting.log"
    with RoundProgram("tests.bench.counting_rounds", log=log) as program:
        assert [program.round(), program.round()] == [{"number": 0}, {"number": 1}]
        with pytest.raises(RuntimeError, match="counting_rounds ended with code 1:\nnothing is left"):
            program.round()
        with pytest.raises(RuntimeError, match="nothing is left"):
            program.round()


def test_commits_of_several_processes_all_land_and_are_counted(tmp_path: Path) -> None:
    found = {one.key: one for one in commit_rate.measure(tmp_path, commits=6, writers=(2,), kinds=("sqlite",))}
    assert len(found["commits.wait_ms_sqlite_2"].samples) == 6
    assert found["commits.most_attempts_sqlite_2"].middle == 1, "writers that take turns meet no conflict"
    assert found["commits.per_minute_sqlite_2"].middle > 0


def test_newest_records_are_built_brought_on_and_compared_with_sql(tmp_path: Path) -> None:
    found = {one.key: one for one in latest.measure(tmp_path, key_counts=[200], updates=500)}
    assert len(found["latest.200_keys.commit"].samples) == latest.COMMITS
    assert found["latest.200_keys.updates"].middle > 0


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_freshness_and_small_ranges_are_measured(tmp_path: Path) -> None:
    found = {
        one.key: one.middle
        for one in [
            *small_ranges.measure(tmp_path / "small", repetitions=1, sizes=["1_kib"]),
            *freshness.measure(tmp_path / "freshness", rates=[1], freshness_seconds=[1]),
        ]
    }
    assert found["small.cpu_ms_here_1_kib"] > 0
    assert found["small.cpu_ms_spark_1_kib"] > 0
    assert 0 < found["freshness.visible_p50_s_1_mib_1_s"] <= found["freshness.visible_p99_s_1_mib_1_s"]
    assert found["freshness.kept_mib_1_mib_1_s"] > 0


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_sql_answers_the_same_on_small_files_and_on_what_they_become(tmp_path: Path) -> None:
    said: list[str] = []
    measured = compacted_sql.measure(tmp_path, files=12, repetitions=1, say=said.append)
    found = {one.key.removeprefix("compaction.sql_"): one.middle for one in measured}
    assert found["files_after"] == 1
    for engine in ("duckdb", "spark"):
        for query in compacted_sql.QUERIES:
            for state in ("before", "after"):
                assert found[f"{engine}_{query}_cpu_ms_{state}"] > 0
                assert found[f"{engine}_{query}_wall_ms_{state}"] > 0
            assert found[f"{engine}_{query}_times"] > 0
    assert said


def test_other_answers_after_compaction_are_told() -> None:
    answer = {"before count": {"rows": [["3"]]}, "after count": {"rows": [["3"]]}}
    compacted_sql.check_answers({"duckdb": [answer], "spark": [answer]})
    with pytest.raises(AssertionError, match="the answers differ"):
        compacted_sql.check_answers({"duckdb": [answer], "spark": [answer | {"after count": {"rows": [["2"]]}}]})


def test_growth_is_of_every_slice_and_smaller_with_compaction(tmp_path: Path) -> None:
    said: list[str] = []
    measured = growth.measure(tmp_path, commits=(4, 40), say=said.append)
    found = {one.key.removeprefix("compaction."): one.middle for one in measured}
    assert (found["growth_off_files_4"], found["growth_off_files_40"]) == (4, 40)
    assert found["growth_on_files_40"] <= found["most_files"] < 40
    assert found["growth_files_times"] > 1
    assert found["merges"] > 0
    assert 1 < found["write_amplification"] < 3
    for figure in ("manifests", "metadata_kib", "commit_cpu_ms", "plan_cpu_ms"):
        assert all(found[f"growth_{name}_{figure}_{commits}"] > 0 for name in ("on", "off") for commits in (4, 40))
    assert said


def test_history_is_of_every_commit_and_shorter_where_it_ends(tmp_path: Path) -> None:
    said: list[str] = []
    found = {one.key: one.middle for one in history.measure(tmp_path, commits=(3, 12), say=said.append)}
    for name in ("ends", "kept"):
        assert (found[f"commits.history_{name}_snapshots_3"], found[f"commits.history_{name}_snapshots_12"]) == (3, 12)
        for figure in ("commit_cpu_ms", "metadata_kib", "manifests", "first_fetch_cpu_ms", "plan_cpu_ms"):
            assert found[f"commits.history_{name}_{figure}_12"] > 0
    assert said


def test_days_of_a_year_are_alike_and_one_can_be_measured(tmp_path: Path) -> None:
    states = list(year_of(100 << 10, days=(1, 2), keep_days=1))
    assert [state.day for state in states] == [1, 2]
    for state in states:
        assert sum(state.entries) == state.files < 100
        assert 500 <= state.snapshots <= 512
    on = cost_of(tmp_path / "on", replace(states[0], files=3, entries=(2, 1), snapshots=4))
    off = list(without_loops(tmp_path / "off", (TIMED_COMMITS + 2, 2 * TIMED_COMMITS + 4)))
    assert [(one.files, one.snapshots) for one in (on, *off)] == [(3, 24), (22, 22), (44, 44)]
    assert all(getattr(one, figure) > 0 for one in (on, *off) for figure in FIGURES)
    plot, svg = ElementTree.fromstring(year_plot([on], off)), "{http://www.w3.org/2000/svg}"
    assert len(plot.findall(f"{svg}g/{svg}circle")) == 3 * len(FIGURES), "a point is what was measured"
    dashed = [line for line in plot.iter(f"{svg}polyline") if "stroke-dasharray" in line.attrib]
    assert len(dashed) == len(FIGURES)


def measurement(key: str, *samples: float, higher_is_better: bool = True) -> Measurement:
    return Measurement(key=key, title=key, unit="MiB", samples=samples, higher_is_better=higher_is_better, goal="≥ 1")


def test_best_follows_the_direction_and_middle_is_the_median() -> None:
    assert measurement("a", 1.0, 5.0, 2.0).best == 5.0
    assert measurement("a", 1.0, 5.0, 2.0, higher_is_better=False).best == 1.0
    assert measurement("a", 1.0, 5.0, 2.0).middle == 2.0


def test_ratio_is_of_the_medians() -> None:
    found = ratio("r", "r", measurement("a", 2.0, 8.0, 4.0), measurement("b", 2.0), goal=None)
    assert found.samples == (2.0,)


def test_figures_of_an_earlier_run_stay_beside_those_of_this_one(tmp_path: Path) -> None:
    path = tmp_path / "build" / "bench.json"
    write_json(path, [measurement("a", 1.0), measurement("b", 2.0)])
    write_json(path, [measurement("b", 3.0)])
    assert json.loads(path.read_text()) == {"a": 1.0, "b": 3.0}


def test_page_has_a_row_for_each_figure_with_the_machine_and_the_command(tmp_path: Path) -> None:
    path = tmp_path / "BENCHMARKS.md"
    write_page(path, [measurement("a.b", 12.34)], machine=Machine.this(), commit="abc", command="python -m bench")
    page = path.read_text()
    assert "| a.b | 12.3 | 12.3 | MiB | ≥ 1 | `a.b` |" in page
    assert "`python -m bench`, at abc" in page
    assert str(Machine.this().core_count) in page


def test_terminal_table_is_aligned() -> None:
    lines = text_table([measurement("short", 1.0), measurement("a much longer title", 1000.0)]).splitlines()
    assert len({line.index("MiB") for line in lines[1:]}) == 1
