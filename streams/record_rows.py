"""Records as the rows that the table has of them, or will have: decoded by the codecs that tiering writes with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.formats.codec import Decoded, Verdict
from engine.records.records import Records
from engine.table.rows.rows import RowCodecs, rows_from_records
from streams.selection import TableSelection


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRows:
    """``rows`` in all columns of the table, in memory of their own; ``known``: how many of the first ones the table has
    the schemas of. The ones after them, but for this, may become other rows once it has."""

    rows: pa.RecordBatch
    known: int


def rows_of(wanted: TableSelection, partition: int, records: Records, codecs: RowCodecs) -> RecordRows:
    """Raises Invalid where a block has more than 2 GiB in one column."""
    value, key = codecs.decode(records)
    rows = rows_from_records(wanted.table.layout, wanted.rows, partition, records, value, key)
    lacking = _lacks_schema(value)
    if key is not None:
        lacking |= _lacks_schema(key)
    known = int(np.argmax(lacking)) if bool(lacking.any()) else len(records)
    # The codecs fill the same memory for the next records, and whoever gets these rows may keep them.
    own = pa.ipc.read_record_batch(rows.serialize(), rows.schema)
    return RecordRows(rows=own, known=known)


def _lacks_schema(decoded: Decoded) -> NDArray[np.bool_]:
    """bool[n]: of which strings the schema may still come."""
    if not decoded.missing_schema_ids:
        return np.zeros(len(decoded), np.bool_)
    is_missing = pc.is_in(decoded.schema_id, value_set=pa.array(sorted(decoded.missing_schema_ids), pa.int32()))
    missing: NDArray[np.bool_] = np.array(is_missing)
    missing &= decoded.verdict == Verdict.UNDECODABLE
    return missing
