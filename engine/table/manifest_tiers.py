"""Which manifests become one with a commit, so that a table of many commits has few of them: pure.

Size-tiered: a manifest of up to ten entries is of the first tier, of up to a hundred of the second. Where a tier has
as many as make one of the next, they are merged. An entry is written again once a tier, and a commit writes no more
than a full manifest's entries again, however many commits came before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

MANIFESTS_OF_A_TIER = 10
"""As many of one tier become one: more would make a longer list, fewer would write entries again more often."""

FULL_ENTRIES = 1000
"""Entries of a full manifest, which is not merged again: about 0.2 s to write, and 50 ms to read."""


def to_merge(entry_counts: Sequence[int]) -> tuple[int, ...]:
    """The places of the manifests that become one, of all by their numbers of live entries, oldest last; none where no
    tier is full. The lowest such tier goes first, and in it the oldest, as many as fill a manifest."""
    tiers: dict[int, list[int]] = defaultdict(list)
    for at, count in enumerate(entry_counts):
        if 0 < count <= FULL_ENTRIES // 2:
            tiers[_tier_of(count)].append(at)
    full = next((tiers[tier] for tier in sorted(tiers) if len(tiers[tier]) >= MANIFESTS_OF_A_TIER), [])
    chosen: list[int] = []
    entries = 0
    for at in reversed(full):
        entries += entry_counts[at]
        if chosen[1:] and entries > FULL_ENTRIES:
            break
        chosen.append(at)
    return tuple(chosen)


def _tier_of(count: int) -> int:
    tier, least = 0, MANIFESTS_OF_A_TIER
    while count >= least:
        tier, least = tier + 1, least * MANIFESTS_OF_A_TIER
    return tier
