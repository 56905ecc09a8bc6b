"""The fence between a sweep and commits: once it stands, no commit can name a data file that was swept.

A process may be stopped for days between the writing of a file and its commit, and its clock with it; a file that
nothing has named for so long is swept meanwhile. So a file knows at which sequence number of the table it was begun,
and the table from which one on it takes files. The fence moves the branch: a commit that was decided before it stood
asserts an older snapshot, and does not land; one that is decided after it is refused here.
"""

from __future__ import annotations

from engine.errors import Unavailable
from engine.table.commit.change import Change, Decision, SnapshotUpdate
from engine.table.properties import SWEPT_PROPERTY
from engine.table.sealed_snapshot import AppendFiles
from engine.table.topic_table import TopicTable


class FenceSweep(Change):
    """No data file that was begun at ``begun_at`` or before is added any more. The fence never moves back."""

    producer = AppendFiles

    def __init__(self, begun_at: int) -> None:
        self._begun_at = begun_at

    def decide(self, table: TopicTable) -> Decision:
        if table.swept >= self._begun_at:
            return Decision()
        return Decision(update=SnapshotUpdate(properties={SWEPT_PROPERTY: str(self._begun_at)}))


def check_begun_since_swept(table: TopicTable, decision: Decision) -> None:
    """Raises Unavailable where a file that is to be added may be gone, or is of a state that the catalog has no more.

    Who wrote it writes it again.
    """
    update = decision.update
    if not isinstance(update, SnapshotUpdate):
        return
    begun = [(file.path, file.begun_at) for file in (*update.added, *update.came)]
    begun += [(entry.file_path, update.begun_at) for entry in update.entries]
    for path, begun_at in begun:
        if table.swept < begun_at <= table.sequence_number:
            continue
        what = "was begun before the state from which on the table takes no older files: it may have been swept since, "
        what += "or have columns that are the table's no more"
        if begun_at > table.sequence_number:
            what = "was begun on a later state of the table than the catalog has"
        raise Unavailable(f"a file {what}", topic=table.topic, file=path, next_step="nothing: it is written again")
