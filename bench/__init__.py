"""Benchmarks: what each promise of the project costs, in CPU-seconds first, and as ratios within one run.

In: the program as its users run it, a broker of its own, sample orders. Out: ``build/bench.json`` and
``docs/BENCHMARKS.md``. Imports every room; nothing imports it but its smoke test.
"""
