"""What the footers of our own files say that their records are."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq

from engine.errors import Corrupt
from engine.records.digest import RangeDigest
from engine.table.data_file import FileFooter
from engine.table.manifests import TableFile
from engine.table.topic_table import TopicTable

FOOTER_THREADS = 8
"""Footers read at once: one request each where the warehouse is far away."""


def footer_digests(view: TopicTable, files: Sequence[TableFile]) -> list[RangeDigest | Corrupt]:
    """One a file, in order; of a file that can't be read, why. Raises Unavailable."""

    def digest(file: TableFile) -> RangeDigest | Corrupt:
        try:
            with view.warehouse.open_input(file.path) as source:
                metadata = pq.read_metadata(source).metadata
            footer = FileFooter.from_key_values(metadata, file=file.path)
        except Corrupt as error:
            return error
        except (pa.ArrowException, OSError) as error:
            return Corrupt(f"a data file can't be read: {error}", file=file.path)
        if (footer.topic_id, footer.partition, footer.range) != (view.topic_id, file.partition, file.range):
            return Corrupt(f"a file's footer says offsets {footer.range} of {footer.partition}", file=file.path)
        return footer.digest

    with ThreadPoolExecutor(FOOTER_THREADS, thread_name_prefix="footer-digests") as pool:
        return list(pool.map(digest, files))
