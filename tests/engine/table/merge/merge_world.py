"""A table whose files are written from records one by one, and merged, verified and replaced as a loop would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from engine.formats.codec import CodecSpec, propose_fields
from engine.offset_range import OffsetRange
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from engine.records.digest import EMPTY_DIGEST, RangeDigest, digest_of
from engine.records.records import Records
from engine.table.columns import TableLayout
from engine.table.commit.change import Committed
from engine.table.commit.range_append import RangeAppend
from engine.table.commit.replacement import FileReplacement
from engine.table.data_file import FileName
from engine.table.ledger import Outcome
from engine.table.manifests import ManifestReader, TableFile
from engine.table.merge.merge_files import Merged, MergeTask, merge_files
from engine.table.proof.verifier import VerifiedFile, Verifier
from engine.table.rows.record_file import RecordFile
from engine.table.rows.rows import RowCodecs
from engine.table.topic_table import TopicTable
from engine.table.windows import Clustering
from tests.engine.table.table_examples import CLUSTER_ID, TOPIC, TOPIC_ID, StillClock, catalog_in, open_writer
from workers.workers import ReadBackTask, proof_of, read_back


class MergeWorld:
    """One partition, 0. ``codec`` as a topic's settings make it; its schemas are added later."""

    def __init__(
        self,
        folder: Path,
        codec: CodecSpec,
        *,
        layout: TableLayout | None = None,
        key_codec: CodecSpec | None = None,
    ) -> None:
        self.folder = folder
        self.writer = open_writer(folder)
        self.clock = StillClock()
        self.verifier = Verifier()
        plain = codec.name in {"string", "raw"}
        self.table = self.writer.ensure(
            topic=TOPIC,
            topic_id=TOPIC_ID,
            cluster_id=CLUSTER_ID,
            layout=layout or TableLayout(),
            codec=codec,
            value_fields=propose_fields(codec.name, "", ()).fields if plain else (),
            key_codec=key_codec,
        )

    def know(self, schemas: Mapping[int, str], *, of_keys: bool = False) -> None:
        self.table = self.writer.add_schemas(self.table, schemas, of_keys=of_keys)

    def append(self, records: Records, *, end: int | None = None) -> TableFile:
        """Tier records from the ledger's end to ``end``, right after the last one if not said."""
        entry = self.table.ledger.get(0)
        start = 0 if entry is None else entry.end
        covered = OffsetRange(start=start, end=int(records.offset[-1]) + 1 if end is None else end)
        facts, codecs = self.table.facts, RowCodecs.of(self.table)
        name = FileName(partition=0, range=covered, leader_epoch=3, attempt=self.clock.new_id())
        file = RecordFile(facts, name, codecs)
        file.add(records, *codecs.decode(records))
        description = file.finish()
        assert description is not None
        task = ReadBackTask(table=facts, file=description)
        proof = proof_of(self.verifier, task, read_back(task))
        assert isinstance(proof, VerifiedFile), proof
        append = RangeAppend(partition=0, range=covered, leader_epoch=3, digest=description.digest, file=proof)
        done = self.writer.commit(self.table, [append], file.settings)
        assert [result.outcome for result in done.results] == [Outcome.COMMITTED]
        self.table = done.table
        return self.files()[-1]

    def files(self) -> tuple[TableFile, ...]:
        return ManifestReader().files(self.table).own

    def task(
        self,
        files: Sequence[TableFile] | None = None,
        *,
        redecode: bool = False,
        clustering: Clustering | None = None,
    ) -> MergeTask:
        return MergeTask(
            table=self.table.facts,
            files=tuple(files or self.files()),
            attempt=self.clock.new_id(),
            redecode=redecode,
            clustering=clustering,
        )

    def proven(self, task: MergeTask, merged: Merged) -> FileReplacement:
        """What may be committed, by the new files as they are read back."""
        proofs = []
        for new in merged.new:
            back = ReadBackTask(table=task.table, file=new)
            proof = proof_of(self.verifier, back, read_back(back))
            assert isinstance(proof, VerifiedFile), proof
            proofs.append(proof)
        return FileReplacement(old=task.files, digest=merged.digest, new=tuple(proofs))

    def replace(self, *wanted: FileReplacement, merged: Merged | None = None) -> Committed:
        done = self.writer.replace(self.table, wanted, None if merged is None else merged.settings)
        self.table = done.table
        return done

    def merge(self, files: Sequence[TableFile] | None = None, *, clustering: Clustering | None = None) -> Merged:
        """Some files, or all, become one."""
        task = self.task(files, clustering=clustering)
        merged = merge_files(task)
        assert self.replace(self.proven(task, merged), merged=merged).outcomes == (Outcome.COMMITTED,)
        return merged

    def digest(self, table: TopicTable | None = None) -> RangeDigest:
        """Of what a consumer of the whole partition gets."""
        table, digest = table or self.table, EMPTY_DIGEST
        reader = LogReader(file_index=FileIndex())
        for records in reader.records(table, 0, table.ledger[0].range):
            digest = digest.then(digest_of(records))
        reader.close()
        return digest

    def rows(self) -> pa.Table:
        """What an engine that knows nothing of us reads, in offset order."""
        loaded = catalog_in(self.folder).load_table(self.table.identifier)
        return loaded.scan().to_arrow().sort_by("kafka_offset")
