"""Merging and verifying files against Spark's own ``rewrite_data_files`` on the same files, a round of each in turn."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.cpu import GIB, MIB
from bench.measurement import Measurement, ratio
from bench.merging.small_files import Shape, make_table
from bench.round_program import RoundProgram

SHAPES = (
    Shape(name="small", title="100 files of 5,000 orders", files=100, rows=5_000),
    Shape(name="row_groups", title="10 files of 65,536 orders", files=10, rows=65_536),
)
_PROGRAMS = {"floeberg": "bench.merging.merge_rounds", "spark": "bench.merging.spark_rewrite_files"}
_TITLES = {"floeberg": "Merge, verify, commit", "spark": "Spark's rewrite_data_files"}


def measure(
    folder: Path, *, repetitions: int, say: Callable[[str], None], shapes: tuple[Shape, ...] = SHAPES
) -> list[Measurement]:
    """Each round is of a partition of its own; the first only warms up."""
    found = []
    for shape in shapes:
        say(f"compaction: {shape.title}, {repetitions + 1} times")
        found += _of_shape(folder / shape.name, shape, repetitions)
    return found


def _of_shape(folder: Path, shape: Shape, repetitions: int) -> list[Measurement]:
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in _PROGRAMS}
    value_bytes = 0
    with ExitStack() as running:
        programs = {}
        for name, module in _PROGRAMS.items():
            data = folder / name
            value_bytes = make_table(data, shape, partitions=repetitions + 1)
            program = RoundProgram(module, "--folder", str(data), log=folder / f"{name}.log")
            programs[name] = running.enter_context(program)
        for _ in range(repetitions + 1):
            for name, program in programs.items():
                rounds[name].append(program.round())
    figures = {name: _cpu(name, shape, rounds[name][1:], value_bytes) for name in _PROGRAMS}
    against = ratio(
        f"compaction.spark_to_floeberg_{shape.name}",
        f"CPU of Spark's rewrite_data_files over that of merging and verifying, {shape.title}",
        figures["spark"],
        figures["floeberg"],
        goal=">= 5",
    )
    return [*figures.values(), against, *(_peak(name, shape, rounds[name]) for name in _PROGRAMS)]


def _cpu(name: str, shape: Shape, rounds: list[dict[str, Any]], value_bytes: int) -> Measurement:
    return Measurement(
        key=f"compaction.{name}_cpu_s_per_gib_{shape.name}",
        title=f"{_TITLES[name]}, {shape.title}: CPU for a GiB of values",
        unit="CPU-s/GiB",
        samples=tuple(one["cpu_seconds"] * GIB / value_bytes for one in rounds),
        higher_is_better=False,
    )


def _peak(name: str, shape: Shape, rounds: list[dict[str, Any]]) -> Measurement:
    return Measurement(
        key=f"compaction.{name}_memory_mib_{shape.name}",
        title=f"{_TITLES[name]}, {shape.title}: memory",
        unit="MiB",
        samples=(max(one["peak_bytes"] for one in rounds) / MIB,),
        higher_is_better=False,
    )
