"""The rules as Prometheus' own promtool judges them: what fires, and when; a daemon that is well fires nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from serving.status.exposition import labels_text
from tests.monitoring.everything import metrics_of_everything, samples

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "monitoring" / "floeberg-alerts.yml"
PROMTOOL = shutil.which("promtool") or shutil.which(ROOT / "build" / "promtool")
DAEMON = {"job": "floeberg", "instance": "broker-1:7811"}

needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not here: make promtool, or install Debian's package prometheus"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """``series`` in promtool's notation, a value a minute, by metric and labels; ``alert`` fires ``at`` these minutes,
    once for each, and not at those when it is ``quiet``."""

    alert: str
    series: dict[str, str]
    fires: tuple[int, ...]
    quiet: tuple[int, ...]


def case(alert: str, metric: str, values: str, *, fires: tuple[int, ...], quiet: tuple[int, ...]) -> Case:
    return Case(alert=alert, series={metric: values}, fires=fires, quiet=quiet)


def gauge(alert: str, metric: str, well: float, ill: float, *, minutes: int) -> Case:
    """Ill from minute 10 on, and fires once that has lasted for ``minutes``; well again 20 minutes later."""
    values = f"{well}x9 {ill}x{minutes + 19} {well}x5"
    early = (9 + minutes,) if minutes else ()
    return case(alert, metric, values, fires=(10 + minutes, 29 + minutes), quiet=(9, *early, 31 + minutes))


def counter(alert: str, metric: str, *, minutes: int = 0, until: int) -> Case:
    """It rises from minute 10 to minute 101, is at rest before and after."""
    return case(alert, metric, "0x10 1+7x90 631x200", fires=(13 + minutes, 100), quiet=(9, 101 + until))


RATIO = {'floeberg_door_under_way{door="log",request="reads"}': "10x9 60x50 10x50"}
SLOW = {
    'floeberg_door_request_duration_seconds_bucket{door="log",request="records",le="1.0"}': "0+100x29 3000x100",
    'floeberg_door_request_duration_seconds_bucket{door="log",request="records",le="2.5"}': "0+100x29 3000+100x100",
    'floeberg_door_request_duration_seconds_bucket{door="log",request="records",le="+Inf"}': "0+100x29 3000+100x100",
}
SLOW_COMMITS = {
    f'floeberg_commit_duration_seconds_bucket{{change="append_ranges",le="{le}"}}': values
    for le, values in (
        ("10.0", "0+10x29 300x100"),
        ("30.0", "0+10x29 300+10x100"),
        ("+Inf", "0+10x29 300+10x100"),
    )
}
CASES = [
    case("FloebergDown", "up", "1x10 0x20 1x20", fires=(13, 31), quiet=(10, 12, 32)),
    case("FloebergDown", "floeberg_build_info", "1x10 stale", fires=(13,), quiet=(10, 12)),
    gauge("FloebergSilent", "floeberg_silent_seconds", 300, 301, minutes=0),
    gauge("FloebergPartitionStopped", 'floeberg_stopped_partitions{topic="orders"}', 0, 1, minutes=0),
    gauge("FloebergPartitionFailing", 'floeberg_problem_partitions{kind="unavailable"}', 0, 2, minutes=10),
    gauge("FloebergDaemonProblem", 'floeberg_problems{kind="commit_unknown"}', 0, 1, minutes=5),
    gauge("FloebergDaemonProblemStays", 'floeberg_problems{kind="invalid"}', 0, 1, minutes=5),
    gauge("FloebergDamage", "floeberg_damages", 0, 1, minutes=0),
    gauge("FloebergBehind", 'floeberg_behind_seconds{topic="orders"}', 600, 601, minutes=0),
    gauge("FloebergAtRisk", 'floeberg_at_risk_bytes{topic="orders"}', 0, 1, minutes=0),
    counter("FloebergSkippedOffsets", 'floeberg_skipped_offsets_total{topic="orders"}', until=61),
    case("FloebergSkippedOffsets", "floeberg_skipped_offsets_total", "_x10 4x200", fires=(10, 60), quiet=(9, 75)),
    case("FloebergSkippedOffsets", "floeberg_skipped_offsets_total", "9x99 0x9 4x200", fires=(112,), quiet=(99, 175)),
    Case(
        alert="FloebergBoundNear",
        series={
            'floeberg_bound_used_bytes{bound="log_disk"}': "80x9 81x50 80x50",
            'floeberg_bound_limit_bytes{bound="log_disk"}': "100x200",
        },
        fires=(20, 59),
        quiet=(9, 19, 61),
    ),
    Case(
        alert="FloebergFileHandlesNear",
        series={"floeberg_open_files": "80x9 81x50 80x50", "floeberg_open_files_limit": "100x200"},
        fires=(20, 59),
        quiet=(9, 19, 61),
    ),
    counter("FloebergUndecodableRows", 'floeberg_rows_total{kept="undecodable"}', until=61),
    gauge("FloebergPartitionWaiting", 'floeberg_waiting_partitions{reason="newer_owner"}', 0, 1, minutes=15),
    gauge("FloebergOpenTransaction", 'floeberg_waiting_partitions{reason="open_transaction"}', 0, 1, minutes=30),
    counter(
        "FloebergLogDoorRefuses",
        'floeberg_door_requests_total{door="log",request="copy",status="401"}',
        minutes=30,
        until=11,
    ),
    counter(
        "FloebergLogDoorFails",
        'floeberg_door_requests_total{door="log",request="records",status="503"}',
        minutes=30,
        until=11,
    ),
    counter("FloebergAnswersBreakOff", 'floeberg_door_broken_answers_total{door="log"}', until=16),
    gauge("FloebergNoCopies", 'floeberg_copy_wait_seconds{topic="orders"}', 300, 301, minutes=0),
    Case(alert="FloebergFetchSlow", series=SLOW, fires=(50,), quiet=(28, 35)),
    Case(
        alert="FloebergDoorFull",
        series={**RATIO, 'floeberg_door_under_way_limit{door="log",request="reads"}': "64x200"},
        fires=(15, 59),
        quiet=(9, 14, 61),
    ),
    Case(alert="FloebergCommitsSlow", series=SLOW_COMMITS, fires=(60,), quiet=(28, 40)),
    gauge("FloebergRegistryAway", 'floeberg_schema_source_away_seconds{source="r"}', 600, 601, minutes=0),
    case(
        "FloebergCompactionBehind",
        "floeberg_compaction_backlog_files",
        "0x9 2000x500 0x20",
        fires=(370, 508),
        quiet=(300, 511),
    ),
    gauge("FloebergCompactionFailing", "floeberg_compaction_problems", 0, 1, minutes=30),
    gauge("FloebergHorizonStuck", "floeberg_horizon_problems", 0, 1, minutes=30),
    gauge("FloebergSweepFailing", 'floeberg_sweep_problem{table="kafka.orders"}', 0, 1, minutes=30),
    gauge("FloebergSweepFailing", 'floeberg_sweep_silent_seconds{table="kafka.orders"}', 86400, 108001, minutes=30),
    gauge("FloebergLatestBehind", "floeberg_latest_problems", 0, 1, minutes=30),
    case(
        "FloebergLatestBehind",
        "floeberg_latest_behind_offsets",
        "0x9 2e6x200 0x20",
        fires=(101, 208),
        quiet=(90, 212),
    ),
    counter("FloebergRangesRefused", 'floeberg_refused_ranges_total{topic="orders"}', until=16),
]


def firing(alert: str) -> str:
    return f'count(count by (alertname) (ALERTS{{alertname="{alert}",alertstate="firing"}}))'


def promtool_test(one: Case) -> dict[str, object]:
    expected = [(minute, [{"labels": "{}", "value": 1}]) for minute in one.fires]
    expected += [(minute, []) for minute in one.quiet]
    always = {"up": "1x600", "floeberg_build_info": "1x600"}
    return {
        "interval": "1m",
        "input_series": [
            {"series": _of_the_daemon(series), "values": values} for series, values in {**always, **one.series}.items()
        ],
        "promql_expr_test": [
            {"expr": firing(one.alert), "eval_time": f"{minute}m", "exp_samples": found} for minute, found in expected
        ],
    }


def _of_the_daemon(series: str) -> str:
    name, _, labels = series.rstrip("}").partition("{")
    return f"{name}{{{','.join(filter(None, [labels, labels_text(**DAEMON)]))}}}"


def judged(folder: Path, *tests: dict[str, object]) -> subprocess.CompletedProcess[str]:
    """What promtool says; JSON is YAML, too."""
    file = folder / "tests.yml"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    return subprocess.run(
        [str(PROMTOOL), "test", "rules", str(file)], capture_output=True, text=True, timeout=120, check=False
    )


@needs_promtool
def test_alerts_fire_when_they_should_and_end_when_it_is_over(tmp_path: Path) -> None:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    assert {one.alert for one in CASES} == {rule["alert"] for rule in group["rules"]}
    done = judged(tmp_path, *map(promtool_test, CASES))
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_daemon_that_is_well_fires_nothing_and_one_alert_is_found(tmp_path: Path) -> None:
    """With the scrape's own series: a rule that asks for something else than they mean would show here."""
    well = {
        "interval": "1m",
        "input_series": [
            *({"series": f"up{{{labels_text(**DAEMON)}}}", "values": "1x600"},),
            *(
                {
                    "series": f"{sample.name}{{{labels_text(**sample.labels, **DAEMON)}}}",
                    "values": f"{0 if sample.name == 'floeberg_latest_problems' else sample.value}x600",
                }
                for sample in samples(metrics_of_everything())
            ),
        ],
        "promql_expr_test": [
            {"expr": "count(ALERTS)", "eval_time": f"{minute}m", "exp_samples": []} for minute in (5, 90, 361)
        ],
    }
    done = judged(tmp_path, well)
    assert done.returncode == 0, done.stdout + done.stderr
    well["input_series"] = [
        {**one, "values": "1x600"} if one["series"].startswith("floeberg_damages{") else one
        for one in well["input_series"]  # type: ignore[attr-defined]
    ]
    assert judged(tmp_path, well).returncode != 0


@needs_promtool
def test_metrics_keep_to_prometheus_conventions() -> None:
    for command, text in (
        (["check", "metrics"], metrics_of_everything().exposition().decode()),
        (["check", "rules", str(RULES)], None),
    ):
        done = subprocess.run([str(PROMTOOL), *command], input=text, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    bad = "# TYPE floeberg_things counter\nfloeberg_things 1\n"
    done = subprocess.run([str(PROMTOOL), "check", "metrics"], input=bad, capture_output=True, text=True, check=False)
    assert done.returncode != 0, "promtool finds what is wrong"
