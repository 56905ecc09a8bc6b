"""Bugs that our own code could have, each as a patch of it: the simulation must find every one of them.

A mutation breaks one rule of docs/commit_protocol.md, docs/tiering.md or docs/log_door.md, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.table.ledger import Outcome
from tests.simulation import (
    mutated_commits,
    mutated_erasures,
    mutated_horizons,
    mutated_latest,
    mutated_merges,
    mutated_parts,
    mutated_sweeps,
)
from tests.simulation.mutated_parts import Patch
from tests.simulation.profile import EVERYTHING, Focus


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """``name`` says what the code does wrong; ``focus`` in which runs that shows soon. ``first_seed``: where the search
    begins, for a bug that many runs don't show: at one that did when this was written."""

    name: str
    patch: Patch
    focus: Focus = EVERYTHING
    first_seed: int = 0


TRANSACTIONS = Focus(steps=("produce-transaction", "end-transaction"))
HORIZONS = Focus(steps=("horizons", "retention", "delete-records"))
ERASURES = Focus(steps=("erase", "produce"))
LATEST = Focus(steps=("latest", "produce"), topics=("compact",))

MUTATIONS: tuple[Mutation, ...] = (
    Mutation(
        name="the epoch is not checked",
        patch=mutated_parts.deciding(Outcome.FENCED, Outcome.COMMITTED),
        focus=Focus(steps=("rogue-commit", "elect")),
        first_seed=18,
    ),
    Mutation(
        name="a gap is accepted",
        patch=mutated_parts.deciding(Outcome.GAP, Outcome.COMMITTED),
        focus=Focus(steps=("rogue-commit",)),
    ),
    Mutation(
        name="an overlap is accepted",
        patch=mutated_parts.deciding(Outcome.OVERLAP, Outcome.COMMITTED),
        focus=Focus(steps=("rogue-commit",)),
        first_seed=13,
    ),
    Mutation(
        name="what is already there is added again",
        patch=mutated_parts.deciding(Outcome.ALREADY_THERE, Outcome.COMMITTED),
        focus=Focus(steps=("rogue-commit",)),
    ),
    Mutation(name="the ledger ends one too late", patch=mutated_parts.ledger_end_off_by(1)),
    Mutation(name="the ledger ends one too early", patch=mutated_parts.ledger_end_off_by(-1)),
    Mutation(name="the ledger's digest is that of the last range", patch=mutated_parts.ledger_forgets_digests),
    Mutation(
        name="a conflict is retried with stale properties",
        patch=mutated_commits.blind_retry,
        focus=Focus(steps=("pause", "elect")),
        first_seed=4,
    ),
    Mutation(
        name="the snapshot is not asserted",
        patch=mutated_commits.snapshot_not_asserted,
        focus=Focus(steps=("pause", "elect")),
        first_seed=4,
    ),
    Mutation(
        name="an unanswered commit is made again",
        patch=mutated_commits.unanswered_commit_made_again,
        focus=Focus(steps=("catalog-lies", "kill")),
    ),
    Mutation(
        name="an unanswered commit is taken for done",
        patch=mutated_commits.unanswered_commit_taken_for_done,
        focus=Focus(steps=("catalog-lies", "retention", "cycle"), topics=("watch",)),
        first_seed=5,
    ),
    Mutation(
        name="answered copied before it is verified",
        patch=mutated_parts.copied_before_it_is_verified,
        focus=Focus(topics=("native",)),
    ),
    Mutation(
        name="a covered range is taken for verified",
        patch=mutated_parts.covered_taken_for_held,
        focus=Focus(steps=("foreign-delete", "copy"), topics=("native",)),
        first_seed=4,
    ),
    Mutation(
        name="verified_range ignores holes, whoever made them",
        patch=mutated_parts.holes_ignored,
        focus=Focus(steps=("foreign-delete", "copy"), topics=("native",)),
        first_seed=4,
    ),
    Mutation(
        name="the digest is not compared", patch=mutated_parts.digest_not_compared, focus=Focus(steps=("bad-memory",))
    ),
    Mutation(
        name="nothing of a file is compared", patch=mutated_parts.file_not_compared, focus=Focus(steps=("bad-memory",))
    ),
    Mutation(name="a file is not read back", patch=mutated_parts.file_not_read_back, focus=Focus(steps=("flip-byte",))),
    Mutation(
        name="the spool lets go before the commit",
        patch=mutated_parts.unlinked_before_it_is_committed,
        focus=Focus(steps=("catalog-away", "retention", "kill", "restart"), topics=("watch",)),
        first_seed=18,
    ),
    Mutation(name="aborted transactions are kept", patch=mutated_parts.aborted_transactions_kept, focus=TRANSACTIONS),
    Mutation(
        name="abort markers of later segments are missed",
        patch=mutated_parts.abort_markers_of_later_segments_missed,
        focus=TRANSACTIONS,
    ),
    Mutation(
        name="the spool forgets aborted transactions",
        patch=mutated_parts.spool_forgets_aborted_transactions,
        focus=Focus(steps=TRANSACTIONS.steps, topics=("watch",)),
    ),
    Mutation(
        name="the high watermark is taken for stable",
        patch=mutated_parts.high_watermark_taken_for_stable,
        focus=TRANSACTIONS,
    ),
    Mutation(
        name="what is closed is taken for stable",
        patch=mutated_parts.closed_taken_for_stable,
        focus=Focus(steps=("elect",)),
        first_seed=7,
    ),
    Mutation(
        name="the reader skips what is behind a gap",
        patch=mutated_parts.reader_skips_the_record_behind_a_gap,
        focus=TRANSACTIONS,
    ),
    Mutation(
        name="the reader forgets leader epochs",
        patch=mutated_parts.reader_forgets_leader_epochs,
        focus=Focus(steps=("elect",)),
    ),
    Mutation(
        name="the index is believed",
        patch=mutated_parts.index_is_believed,
        focus=Focus(steps=("elect", "clean"), topics=("compact",)),
        first_seed=28,
    ),
    Mutation(
        name="the rewrite forgets leader epochs",
        patch=mutated_parts.rewrite_forgets_leader_epochs,
        focus=Focus(steps=("elect",)),
    ),
    Mutation(name="empty values are taken for null", patch=mutated_parts.empty_values_taken_for_null),
    Mutation(
        name="the reader serves over holes",
        patch=mutated_parts.reader_serves_over_holes,
        focus=Focus(steps=("foreign-delete",)),
    ),
    Mutation(name="batches leave gaps out", patch=mutated_parts.batches_leave_gaps_out, focus=TRANSACTIONS),
    Mutation(
        name="names are trusted instead of topic ids",
        patch=mutated_parts.names_trusted,
        focus=Focus(steps=("recreate-topic",)),
    ),
    Mutation(
        name="the planner ignores the log start",
        patch=mutated_parts.log_start_ignored_by_the_planner,
        focus=Focus(steps=("delete-records", "retention"), topics=("native",)),
    ),
    Mutation(
        name="a stale view answers for good", patch=mutated_parts.stale_view_answers, focus=Focus(topics=("native",))
    ),
    Mutation(
        name="what follows a failed range is committed",
        patch=mutated_parts.failed_range_leaves_the_next_ones,
        focus=Focus(steps=("flip-byte", "bad-memory")),
    ),
    Mutation(
        name="a group of files has a hole",
        patch=mutated_merges.group_with_a_hole,
        focus=Focus(steps=("compact",)),
        first_seed=4,
    ),
    Mutation(
        name="a merged file is not read back",
        patch=mutated_merges.merged_file_not_read_back,
        focus=Focus(steps=("compact", "flip-byte", "bad-memory")),
        first_seed=11,
    ),
    Mutation(
        name="a changed group is replaced all the same",
        patch=mutated_merges.changed_group_replaced_all_the_same,
        focus=Focus(steps=("compact", "pause"), twins=True),
    ),
    Mutation(
        name="an append beside a replacement is lost",
        patch=mutated_merges.append_beside_a_replacement_lost,
        focus=Focus(steps=("compact", "pause", "rogue-commit"), twins=True),
        first_seed=2,
    ),
    Mutation(
        name="a replaced file is offered to new readers",
        patch=mutated_merges.replaced_file_offered_to_new_readers,
        focus=Focus(steps=("compact", "read", "replaced-files-go")),
        first_seed=4,
    ),
    Mutation(
        name="a file that may be swept is committed",
        patch=mutated_sweeps.fence_not_looked_at,
        focus=Focus(steps=("sweep", "pause"), twins=True),
        first_seed=8,
    ),
    Mutation(
        name="a sweep puts up no fence",
        patch=mutated_sweeps.no_fence,
        focus=Focus(steps=("sweep", "pause"), twins=True),
        first_seed=8,
    ),
    Mutation(
        name="the sweep knows nothing of branches and history",
        patch=mutated_sweeps.sweep_knows_main_alone,
        focus=Focus(steps=("sweep", "horizons", "compact")),
    ),
    Mutation(
        name="files leave the table and not to the stream's branch",
        patch=mutated_horizons.branch_forgotten,
        focus=HORIZONS,
    ),
    Mutation(
        name="files leave the stream before consumers are told",
        patch=mutated_horizons.gone_before_consumers_are_told,
        focus=HORIZONS,
    ),
    Mutation(
        name="the table's horizon is not recorded",
        patch=mutated_horizons.horizon_of_the_table_not_recorded,
        focus=HORIZONS,
    ),
    Mutation(
        name="an erasure commits a file that nobody proved",
        patch=mutated_erasures.unproven_file,
        focus=Focus(steps=("erase", "flip-byte", "bad-memory")),
    ),
    Mutation(
        name="an erasure forgets the stream's branch",
        patch=mutated_erasures.branch_forgotten,
        focus=Focus(steps=("erase", *HORIZONS.steps)),
    ),
    Mutation(
        name="an erasure looks once",
        patch=mutated_erasures.one_look,
        focus=Focus(steps=("erase", "compact", "pause")),
        first_seed=9,
    ),
    Mutation(
        name="a merge that began before an erasure brings the records back",
        patch=mutated_erasures.merge_of_before_takes_its_range,
        focus=Focus(steps=("erase", "compact", "pause")),
    ),
    Mutation(name="an erasure leaves the digest as it was", patch=mutated_erasures.digest_stays, focus=ERASURES),
    Mutation(
        name="the table forgets which records were erased",
        patch=mutated_erasures.offsets_not_remembered,
        focus=ERASURES,
    ),
    Mutation(
        name="snapshots from before an erasure are kept",
        patch=mutated_erasures.history_kept,
        focus=ERASURES,
    ),
    Mutation(
        name="an erasure forgets the table of the newest records",
        patch=mutated_latest.erasure_not_noticed,
        focus=Focus(steps=("latest", "erase"), topics=("compact",)),
    ),
    Mutation(
        name="an update is lost between the index of keys and the commit",
        patch=mutated_latest.index_taken_for_the_table,
        focus=Focus(steps=("latest", "kill", "pause"), topics=("compact",)),
        first_seed=7,
    ),
    Mutation(
        name="a key supersedes that of another partition",
        patch=mutated_latest.keys_of_all_partitions_together,
        focus=LATEST,
        first_seed=4,
    ),
    Mutation(
        name="the newest records' table names a file that was swept",
        patch=mutated_latest.sweep_does_not_ask_it,
        focus=Focus(steps=("latest", "compact", "sweep"), topics=("compact",)),
        first_seed=3,
    ),
    Mutation(name="a file is named once more", patch=mutated_latest.file_named_again, focus=LATEST),
    Mutation(name="a batch is taken in twice", patch=mutated_latest.batch_taken_in_twice, focus=LATEST),
    Mutation(name="tombstones are shown", patch=mutated_latest.tombstones_shown, focus=LATEST),
    Mutation(
        name="newest records are committed as they were planned before another's commit",
        patch=mutated_latest.plan_of_before_committed,
        focus=Focus(steps=("latest", "pause"), topics=("compact",), twins=True),
        first_seed=7,
    ),
)
