"""What compaction may take of the machine, beside the bounds of repairs and merges."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from compaction.merge_limits import MergeLimits
from compaction.repair_limits import RepairLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionLimits:
    """The defaults of ``[compaction]``."""

    enabled: bool = True
    """Whether files are merged; repairs go on without."""

    max_parallel: int = 1
    """Files written at once."""

    cpu_share: float = 0.25
    """Of all cores, over a turn and the pause after it."""

    cores: int = os.cpu_count() or 1

    merge: MergeLimits = field(default_factory=MergeLimits)
    repair: RepairLimits = field(default_factory=RepairLimits)

    @property
    def parallel(self) -> int:
        """``max_parallel``, but one core less than there are: what is new never waits for a whole file to be merged."""
        return max(1, min(self.max_parallel, self.cores - 1))

    def pause_ms(self, *, cpu_ms: int, took_ms: int) -> int:
        """How long nothing is to be done after work of ``cpu_ms`` that took ``took_ms``, so that the share is kept."""
        return max(0, int(cpu_ms / (self.cores * self.cpu_share)) - took_ms)
