"""Alerts and dashboard ask for what a scrape has: metrics, labels and their values; alerts link to the runbook."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from tests.monitoring.everything import samples_of_everything

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "monitoring" / "floeberg-alerts.yml"
DASHBOARD = ROOT / "monitoring" / "floeberg-dashboard.json"
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text()

OF_PROMETHEUS = {"up": {}, "ALERTS": {"alertname": set(), "alertstate": {"firing"}, "severity": set(), "topic": set()}}
"""Series that Prometheus makes itself, with their labels."""
OF_THE_SCRAPE = {"job", "instance"}
OPEN = {"topic", "partition", "table", "source", "status", "change", "request", "le", "version", "python", "process"}
"""Labels whose values are not known beforehand."""


def alerts() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return list(group["rules"])


def panels() -> list[dict[str, Any]]:
    return [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[tuple[str, str]]:
    """(where, PromQL) of all."""
    yield from ((rule["alert"], rule["expr"]) for rule in alerts())
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], re.sub(r"\$__(?:rate_interval|range)", "5m", target["expr"])
    for variable in json.loads(DASHBOARD.read_text())["templating"]["list"][1:]:
        series, _, label = variable["definition"].removeprefix("label_values(").rstrip(")").rpartition(", ")
        yield variable["name"], f"sum by ({label}) ({series})"


@cache
def known() -> dict[str, dict[str, set[str]]]:
    """The values of each label of each metric."""
    found: dict[str, dict[str, set[str]]] = {name: dict(labels) for name, labels in OF_PROMETHEUS.items()}
    for sample in samples_of_everything():
        labels = found.setdefault(sample.name, {})
        for label, value in sample.labels.items():
            labels.setdefault(label, set()).add(value)
    return found


def selectors_in(parsed: Any) -> list[Any]:
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)

    promql_parser.walk(parsed, visit)
    return found


def unknown_in(selector: Any) -> Iterator[str]:
    labels = known().get(selector.name)
    if labels is None:
        yield f"no metric {selector.name}"
        return
    for matcher in selector.matchers.matchers:
        if matcher.name in OF_THE_SCRAPE:
            continue
        if matcher.name not in labels:
            yield f"{selector.name} has no label {matcher.name}"
        elif matcher.name not in OPEN and "$" not in matcher.value and labels[matcher.name]:
            wanted = set(matcher.value.split("|"))
            yield from (f'{selector.name} never has {matcher.name}="{one}"' for one in wanted - labels[matcher.name])


def groupings_in(parsed: Any) -> Iterator[tuple[set[str], set[str]]]:
    """(labels that are grouped by, labels that what is grouped has)."""
    found: list[Any] = []
    promql_parser.walk(
        parsed, lambda node: found.append(node) if hasattr(node, "op") and hasattr(node, "expr") else None
    )
    for node in found:
        if node.modifier is not None:
            had = [set(known()[selector.name]) for selector in selectors_in(node.expr)]
            yield set(node.modifier.labels), OF_THE_SCRAPE.union(*had)


@pytest.mark.parametrize(("where", "expression"), expressions())
def test_expression_asks_for_what_a_scrape_has(where: str, expression: str) -> None:
    parsed = promql_parser.parse(expression)
    selectors = selectors_in(parsed)
    assert selectors, f"{where} asks for no metric"
    assert [problem for selector in selectors for problem in unknown_in(selector)] == []
    for grouped, had in groupings_in(parsed):
        assert grouped <= had, f"{where} groups by what there is not"


def test_expressions_that_ask_for_what_there_is_not_are_found() -> None:
    found = [
        problem
        for expression in ("floeberg_lost > 0", 'floeberg_problems{sort="invalid"}', 'floeberg_problems{kind="bad"}')
        for selector in selectors_in(promql_parser.parse(expression))
        for problem in unknown_in(selector)
    ]
    assert found == [
        "no metric floeberg_lost",
        "floeberg_problems has no label sort",
        'floeberg_problems never has kind="bad"',
    ]
    ((grouped, had),) = groupings_in(promql_parser.parse("sum by (partition) (floeberg_lag_records)"))
    assert not grouped <= had


def test_dashboard_names_in_its_legends_what_its_queries_leave() -> None:
    for panel in panels():
        for target in panel["targets"]:
            parsed = promql_parser.parse(re.sub(r"\$__(?:rate_interval|range)", "5m", target["expr"]))
            labels = OF_THE_SCRAPE.union(*(known()[selector.name] for selector in selectors_in(parsed)))
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= labels, panel["title"]
    places = [tuple(panel["gridPos"].values()) for panel in json.loads(DASHBOARD.read_text())["panels"]]
    assert len(set(places)) == len(places)
    identities = [panel["id"] for panel in json.loads(DASHBOARD.read_text())["panels"]]
    assert len(set(identities)) == len(identities)


def anchors() -> set[str]:
    """Of the runbook's headings, as GitHub and MkDocs name them."""
    titles = re.findall(r"^#+ (.+)$", RUNBOOK, re.MULTILINE)
    return {re.sub(r"[^a-z0-9 _-]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_alert_links_to_a_heading_of_the_runbook_and_the_runbook_lists_every_alert() -> None:
    table = RUNBOOK.split("\n## Alarms\n")[1].split("\n## ")[0]
    listed = re.findall(r"^\| \[`(\w+)`\]\((#[a-z0-9-]+)\) \|.+\| (critical|warning) \|$", table, re.MULTILINE)
    told = []
    for rule in alerts():
        document, anchor = rule["annotations"]["runbook_url"].split("#")
        assert document == "docs/runbook.md"
        assert anchor in anchors(), f"{rule['alert']} links to no heading"
        assert {"summary", "description"} < rule["annotations"].keys()
        told.append((rule["alert"], f"#{anchor}", rule["labels"]["severity"]))
    assert listed == told
