"""The points at which a process may end: one between every two effects that outlive it (docs/commit_protocol.md).

``reach`` does nothing unless a hook is armed: a test's, which counts or raises, or, in a process whose environment has
``FLOEBERG_FAULT="<point>[#<n>]"``, one that kills the process when the point is reached for the n-th time.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum

from engine.errors import Invalid

ENVIRONMENT_VARIABLE = "FLOEBERG_FAULT"


class FaultPoint(StrEnum):
    """Named for what has just happened. In the order of a segment's way, from the log directory to a consumer."""

    # Observation
    LOGS_SEEN = "logs-seen"  # and listed; the broker not asked for offsets, which may be of what came since

    # Spool
    SPOOL_FACTS_HALF_WRITTEN = "spool-facts-half-written"  # under their temporary name
    SPOOL_FACTS_WRITTEN = "spool-facts-written"  # no link yet
    SPOOL_STALE_LINK_REMOVED = "spool-stale-link-removed"  # of an earlier attempt, the new one not made
    SPOOL_LINK_MADE = "spool-link-made"
    SPOOL_LINK_REMOVED = "spool-link-removed"  # its facts are still there
    SPOOL_FACTS_REMOVED = "spool-facts-removed"  # and other links of the same turn are still there

    # Tables
    OLDER_TABLE_RENAMED = "older-table-renamed"  # the new incarnation's not created
    TABLE_CREATED = "table-created"

    # Schemas
    SCHEMA_FILE_WRITTEN = "schema-file-written"  # nothing names it
    SCHEMAS_COMMITTED = "schemas-committed"  # the records that need them not rewritten

    # Data file
    DATA_FILE_OPENED = "data-file-opened"  # empty, under its temporary name
    DATA_FILE_WRITTEN = "data-file-written"  # all bytes, under its temporary name, not synced
    FILE_SYNCED = "file-synced"  # any local file of the warehouse, under its temporary name
    FILE_RENAMED = "file-renamed"  # any local file of the warehouse, its folder not synced
    DATA_FILE_DURABLE = "data-file-durable"  # its description not handed on
    RANGES_WRITTEN = "ranges-written"  # not verified
    RANGES_VERIFIED = "ranges-verified"  # not committed

    # Commit
    COMMIT_DECIDED = "commit-decided"  # nothing written
    ICEBERG_FILE_DURABLE = "iceberg-file-durable"  # a manifest, manifest list or metadata file; nothing names it
    SNAPSHOT_STAGED = "snapshot-staged"  # manifests and list are there, the metadata file is not
    METADATA_DURABLE = "metadata-durable"  # the catalog's row not changed
    CATALOG_CHANGED = "catalog-changed"  # the writer not told
    WRITER_TOLD = "writer-told"  # the loop not
    LOOP_TOLD = "loop-told"  # another table's commit, or the listeners, not
    SPOOL_ABOUT_TO_LET_GO = "spool-about-to-let-go"  # committed in an earlier turn, links still there
    HORIZONS_MOVED = "horizons-moved"  # committed; who moves them has not gone on

    # Compaction
    REPLACEMENTS_WRITTEN = "replacements-written"  # files with the records of others, not verified
    REPLACEMENTS_VERIFIED = "replacements-verified"  # not committed
    REPLACEMENTS_TOLD = "replacements-told"  # committed; who replaces them has not gone on

    # Retype
    RETYPE_PLANNED = "retype-planned"  # the new columns, kept beside the table; no file written for them
    RETYPE_FILES_NOTED = "retype-files-noted"  # files in the new format, proven; others not written
    TABLE_RETYPED = "table-retyped"  # committed; the plan is still kept

    # Latest per key
    LATEST_DELETES_WRITTEN = "latest-deletes-written"  # delete files; nothing names them
    LATEST_COMMITTED = "latest-committed"  # the index of keys not told
    LATEST_INDEXED = "latest-indexed"  # and told; the loop not

    # Sweep
    SIGHTINGS_KEPT = "sightings-kept"  # what was seen unnamed; nothing removed
    SWEEP_FENCED = "sweep-fenced"  # the table takes no file of before; none removed
    SWEEP_FENCED_LATEST = "sweep-fenced-latest"  # nor the table of the newest records; none removed
    FILES_SWEPT = "files-swept"  # some; others of the same sweep still there

    # Topics that the broker has no more
    GONE_TOPICS_NOTED = "gone-topics-noted"  # since when, and which tables are dropped for it; none dropped yet
    GONE_TABLE_RENAMED = "gone-table-renamed"  # has the name with the topic's id; still in the catalog
    GONE_TABLE_DROPPED = "gone-table-dropped"  # its files are there; others of the same topic still in the catalog

    # Log door: the answer "copied"
    DOOR_TOKEN_WRITTEN = "door-token-written"  # under its temporary name
    DOOR_TOKEN_NAMED = "door-token-named"  # the temporary name still there
    COPY_PROVEN = "copy-proven"  # the range is verified, the auxiliary state not kept
    AUXILIARY_STATE_WRITTEN = "auxiliary-state-written"  # under its temporary name
    AUXILIARY_STATE_KEPT = "auxiliary-state-kept"  # the broker not answered
    COPY_ANSWERED = "copy-answered"  # the broker may drop its segment
    AUXILIARY_STATE_REMOVED = "auxiliary-state-removed"  # below the log start; others of the same turn still there

    # Log door: reads
    RECORDS_ASKED = "records-asked"  # no batch made
    BATCH_MADE = "batch-made"  # an answer is under way
    INDEX_MADE = "index-made"  # not answered


_hook: Callable[[FaultPoint], None] | None = None


def reach(point: FaultPoint) -> None:
    """Tell whoever is armed that the process stands at ``point``."""
    if _hook is not None:
        _hook(point)


def arm(hook: Callable[[FaultPoint], None]) -> None:
    """Call ``hook`` at every point reached from now on, in the thread that reaches it; what it raises goes through."""
    global _hook  # noqa: PLW0603 - the process ends as a whole, so it has one switch
    _hook = hook


def disarm() -> None:
    """No hook from now on."""
    global _hook  # noqa: PLW0603 - see arm
    _hook = None


@contextmanager
def armed(hook: Callable[[FaultPoint], None]) -> Iterator[None]:
    """``hook`` is armed within the block."""
    arm(hook)
    try:
        yield
    finally:
        disarm()


class KillAt:
    """A hook that ends the process, as the kernel or an operator does, when ``<point>[#<n>]`` is reached."""

    def __init__(self, order: str) -> None:
        name, _, count = order.partition("#")
        self._point = FaultPoint(name)
        self._left = int(count or 1)
        if self._left < 1:
            raise ValueError(f"a point is reached for the first time or later, not for the {self._left}th")

    def __call__(self, point: FaultPoint) -> None:
        if point is not self._point:
            return
        self._left -= 1
        if self._left == 0:
            os.write(2, f"killed at {point}\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)


def _arm_from_environment() -> None:
    order = os.environ.get(ENVIRONMENT_VARIABLE)
    if order is None:
        return
    try:
        arm(KillAt(order))
    except ValueError as error:
        raise Invalid(f"{ENVIRONMENT_VARIABLE}={order} names no point: {error}") from error


_arm_from_environment()
