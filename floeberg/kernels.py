"""Loads every compiled kernel. As a program, ``python -m floeberg.kernels``, it fills numba's cache when installing.

Compiling takes most of a minute and half a GiB of memory, which is better spent once, in a process of its own.
"""

from __future__ import annotations

from pkgutil import resolve_name

from engine.formats.format_facts import ENVELOPES, FORMATS

_KERNEL_MODULES = (
    "engine.records.digest_runs",
    "engine.kafka_log.batch_writer",
    "engine.kafka_log.segment_reader",
    "engine.reading.log_reader",
    "engine.table.rows.rows",
    "engine.table.proof.verifier",
)
"""Importing them and the formats compiles every kernel, or loads it from numba's cache."""


def load_kernels() -> None:
    """Compile what is not in numba's cache yet; the second time it takes about a second."""
    for module in (*_KERNEL_MODULES, *(facts.codec for facts in FORMATS.values()), *ENVELOPES.values()):
        resolve_name(module)


if __name__ == "__main__":
    load_kernels()
