"""Since when stable records wait: what the last stable offset was at earlier moments."""

from __future__ import annotations

from collections import deque

_SAMPLES = 256
"""Offsets remembered a partition: when they are more, every second one goes, and the lag gets coarser with its age."""


class StableHistory:
    """One partition's last stable offsets over time. Times are monotonic milliseconds, so that no wait is negative."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, int]] = deque()

    def note(self, now_ms: int, stable_offset: int) -> None:
        """Remember what the leader said just now. Offsets that did not rise add nothing."""
        if self._samples and stable_offset <= self._samples[-1][1]:
            return
        self._samples.append((now_ms, stable_offset))
        if len(self._samples) > _SAMPLES:
            kept = [sample for index, sample in enumerate(self._samples) if index % 2 == 0]
            self._samples = deque([*kept[:-1], self._samples[-1]])

    def untiered_since_ms(self, tiered_end: int) -> int | None:
        """When a stable offset beyond ``tiered_end`` was first seen; None while there is none."""
        while self._samples and self._samples[0][1] <= tiered_end:
            self._samples.popleft()
        return self._samples[0][0] if self._samples else None
