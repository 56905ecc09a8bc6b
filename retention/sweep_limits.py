"""The bounds of sweeps."""

from __future__ import annotations

from dataclasses import dataclass

SHORTEST_GRACE_MS = 3_600_000
"""Less than it takes to write, prove and commit the largest file would have its commit refused; and a query of another
engine goes on reading the snapshot that it began with."""

MOST_SIGHTINGS = 2_000_000
"""Files of a table that are remembered as unnamed, 40 MB; of more, the rest is seen once these are gone. Forty
partitions that commit every five seconds and are merged leave 700,000 within a day's grace."""

MOST_DUE = 100_000
"""Files that one sweep removes, some 60 MB while it does; the next one goes on."""

MOST_STATES = 100
"""Table metadata files that are read in one sweep, to see whose they are: each may have megabytes."""

MOST_OTHERS_STATES = 10_000
"""Those that were found to be others' and are not read again: about 2 MB."""

WORTH_A_COMMIT = 100
"""Manifests, lists and states that wait for the table's next commit: so many are worth one of the sweep's own. The one
file that it will leave itself is not, so that a quiet table gets none for ever."""

PLAN_LASTS_MS = 600_000
"""After it the table is looked at again before more is removed: a process may be stopped in between."""

CLOCK_TOLERANCE_MS = 60_000
"""How far the wall clock may drift from the monotonic one between two looks before it counts as set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepLimits:
    """The defaults of ``[history]``, as far as they concern files."""

    grace_ms: int = 24 * 3_600_000
    """How long a file is left that nothing names: engines read by what the table was when they asked."""

    interval_ms: int = 3_600_000
    """Between two looks at a table: a look lists its folder."""

    pause_share: int = 9
    """A look is followed by a pause of so many times its own duration: sweeps take a tenth of a core at most."""
