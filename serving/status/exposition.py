"""The text format of Prometheus, for what a status has by the thousand.

A topic's labels are written once for all of its series; the client library takes ten times the time.
"""

from __future__ import annotations

from collections.abc import Iterable


def labels_text(**labels: object) -> str:
    """``topic="orders",partition="0"``, as a series has it in its braces."""
    return ",".join(f'{name}="{_escaped(str(value))}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


class Exposition:
    """Families of series, one after the other. The documentation has no line ends."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def gauge(self, name: str, documentation: str, value: float) -> None:
        """The one series of a family."""
        self.gauges(name, documentation, [("", value)])

    def gauges(self, name: str, documentation: str, series: Iterable[tuple[str, float]]) -> None:
        """``series``: labels (``labels_text``) and value of each; of a family without any nothing is said."""
        self._family(name, "gauge", documentation, series)

    def counters(self, name: str, documentation: str, series: Iterable[tuple[str, float]]) -> None:
        """As ``gauges``; the ``name`` ends in _total."""
        self._family(name, "counter", documentation, series)

    def _family(self, name: str, kind: str, documentation: str, series: Iterable[tuple[str, float]]) -> None:
        lines = [
            f"{name}{{{labels}}} {float(value)}\n" if labels else f"{name} {float(value)}\n" for labels, value in series
        ]
        if lines:
            self._lines.append(f"# HELP {name} {documentation}\n# TYPE {name} {kind}\n")
            self._lines += lines

    def to_bytes(self) -> bytes:
        return "".join(self._lines).encode()
