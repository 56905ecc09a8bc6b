"""What is left of a stored file without some of its records, by a reader that is not the one that wrote it again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.errors import Corrupt
from engine.records.digest import EMPTY_DIGEST, RangeDigest, digest_of
from engine.table.data_file import FileFooter, check_footer
from engine.table.manifests import TableFile
from engine.table.proof.stored_records import file_records
from engine.table.proof.verification import opened
from engine.table.topic_table import TableFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRows:
    """``before`` the digest of all records of a file, ``after`` of those that are left."""

    before: RangeDigest
    after: RangeDigest


def kept_rows(table: TableFacts, file: TableFile, without: NDArray[np.int64]) -> KeptRows:
    """Read a file of the table; ``without`` int64[n] are offsets of records that are left out.

    Raises Corrupt: the file is not the one that the table was given, or its records are not what its footer says;
    Unavailable.
    """
    before, after = EMPTY_DIGEST, EMPTY_DIGEST
    parsed = opened(table.warehouse, file.path).footer()
    check_footer(parsed, file.footer_checksum)
    said = FileFooter.from_key_values(parsed.key_values, file=file.path).digest
    for records in file_records(table, file.path, file.range):
        before = before.then(digest_of(records))
        for run in records.where(~np.isin(records.offset, without)):
            after = after.then(digest_of(run))
    if before != said:
        raise Corrupt(
            f"its rows have the digest {before.to_text()}, its footer says {said.to_text()}",
            topic=table.topic,
            partition=file.partition,
            file=file.path,
        )
    return KeptRows(before=before, after=after)
