"""The dashboard is what Grafana's own schema knows: Grafana drops what it does not know and says nothing."""

from __future__ import annotations

import copy
import enum
import json
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

_DASHBOARD = Path(__file__).resolve().parents[2] / "monitoring" / "floeberg-dashboard.json"
_BESIDE_THE_SCHEMA = "definition"
"""A variable's query as its list of variables shows it: in all that Grafana exports, and in its schema not."""


@pytest.fixture(scope="module", autouse=True)
def panels_of_all_kinds() -> None:
    register_default_plugins()


def problems_of(dashboard: dict[str, Any]) -> list[str]:
    read = Dashboard.from_json(dashboard)
    written = json.loads(JSONEncoder().encode(read))
    return [*_lost(dashboard, written, "dashboard"), *_no_choices(read, "dashboard")]


def _lost(before: Any, after: Any, where: str) -> Iterator[str]:
    """What Grafana's types did not keep."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            if name in after:
                yield from _lost(value, after[name], f"{where}.{name}")
            elif name != _BESIDE_THE_SCHEMA:
                yield f"{where} has no {name}"
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _lost(one, other, f"{where}[{number}]")
    elif before != after:
        yield f"{where} is not {before!r}"


def _no_choices(value: Any, where: str) -> Iterator[str]:
    """Texts and numbers where the types have an enumeration that lacks them."""
    if isinstance(value, list):
        for number, one in enumerate(value):
            yield from _no_choices(one, f"{where}[{number}]")
    elif type(value).__module__.startswith("grafana_foundation_sdk.models."):
        hints = typing.get_type_hints(type(value))
        for name, held in vars(value).items():
            choices = [
                choice
                for choice in (hints.get(name), *typing.get_args(hints.get(name)))
                if isinstance(choice, type) and issubclass(choice, enum.Enum)
            ]
            if choices and held is not None and all(held not in {one.value for one in choice} for choice in choices):
                yield f"{where}.{name} is never {held!r}"
            yield from _no_choices(held, f"{where}.{name}")


def test_dashboard_is_what_grafana_knows() -> None:
    assert problems_of(json.loads(_DASHBOARD.read_text())) == []


@pytest.mark.parametrize(
    ("part", "name", "value", "problem"),
    [
        ((), "graphToolTip", 1, "dashboard has no graphToolTip"),
        (("fieldConfig", "defaults"), "units", "bytes", "has no units"),
        (("options",), "colourMode", "value", "has no colourMode"),
        (("options",), "colorMode", "colour", "color_mode is never 'colour'"),
        (("targets", 0), "expression", "up", "has no expression"),
        (("fieldConfig", "defaults", "thresholds"), "mode", "relative", "mode is never 'relative'"),
    ],
)
def test_what_grafana_does_not_know_is_found(part: tuple[Any, ...], name: str, value: Any, problem: str) -> None:
    dashboard = copy.deepcopy(json.loads(_DASHBOARD.read_text()))
    place = dashboard
    if part:
        place = next(panel for panel in dashboard["panels"] if panel["type"] == "stat")
        for step in part:
            place = place[step]
    place[name] = value
    (found,) = problems_of(dashboard)
    assert problem in found
