"""Manifests stay few, and few entries are written again for it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.table.sealed_snapshot import FULL_ENTRIES, MANIFESTS_OF_A_TIER, to_merge

TIERS = 3


@given(st.lists(st.integers(0, 3 * FULL_ENTRIES), max_size=60))
def test_bounded_work_on_small_manifests_alone(counts: list[int]) -> None:
    chosen = to_merge(counts)
    assert len(chosen) != 1
    assert len(set(chosen)) == len(chosen)
    assert sum(counts[at] for at in chosen) <= FULL_ENTRIES
    assert all(0 < counts[at] <= FULL_ENTRIES // 2 for at in chosen)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=3000))
def test_any_history_of_appends_leaves_few_manifests(added: list[int]) -> None:
    manifests: list[int] = []
    written_again = 0
    for entries in added:
        chosen = to_merge(manifests)
        merged = sum(manifests[at] for at in chosen)
        written_again += merged
        manifests = [entries, *([merged] if chosen else []), *(n for at, n in enumerate(manifests) if at not in chosen)]
    full = 2 * sum(added) / FULL_ENTRIES
    assert len(manifests) <= full + TIERS * (MANIFESTS_OF_A_TIER + 1)
    assert written_again <= (TIERS + 1) * sum(added)
    assert sum(manifests) == sum(added)
