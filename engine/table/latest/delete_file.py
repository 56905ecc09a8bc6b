"""Files of position deletes, each for one data file: written and read.

Source: the Iceberg table specification, "Position Delete Files" and "Reserved Field IDs".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from engine.errors import Corrupt
from engine.parquet.leaves import FIELD_ID_KEY
from engine.table.data_file import FileName, data_path
from engine.table.topic_table import TopicTable

DELETED_PATH_ID = 2147483546
_POSITION_ID = 2147483545

_PATH, _POSITION = "file_path", "pos"

_SCHEMA = pa.schema(
    [
        pa.field(_PATH, pa.string(), nullable=False, metadata={FIELD_ID_KEY: str(DELETED_PATH_ID)}),
        pa.field(_POSITION, pa.int64(), nullable=False, metadata={FIELD_ID_KEY: str(_POSITION_ID)}),
    ]
)


def write_delete_file(table: TopicTable, name: FileName, *, data_file: str, positions: NDArray[np.int64]) -> DataFile:
    """A file, durable under ``name``, that takes the rows at ``positions`` (rising, one at least) out of ``data_file``,
    as a manifest describes it. Its bounds name the data file whole: no reader opens it for another one.
    """
    count = len(positions)
    paths = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([data_file]))
    written = pa.BufferOutputStream()
    pq.write_table(
        pa.Table.from_arrays([paths.cast(pa.string()), pa.array(positions)], schema=_SCHEMA),
        written,
        compression="zstd",
        use_dictionary=[_PATH],
        column_encoding={_POSITION: "DELTA_BINARY_PACKED"},
        write_page_checksum=True,
    )
    content = written.getvalue()
    path = data_path(table.location, table.topic_id, name)
    table.warehouse.write_bytes(path, content)
    named = data_file.encode()
    entry = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(name.partition),
        record_count=count,
        file_size_in_bytes=len(content),
        column_sizes={},
        value_counts={DELETED_PATH_ID: count, _POSITION_ID: count},
        null_value_counts={DELETED_PATH_ID: 0, _POSITION_ID: 0},
        nan_value_counts={},
        lower_bounds={DELETED_PATH_ID: named, _POSITION_ID: _long(positions[0])},
        upper_bounds={DELETED_PATH_ID: named, _POSITION_ID: _long(positions[-1])},
        key_metadata=None,
        split_offsets=[4],
        equality_ids=None,
        sort_order_id=None,
    )
    entry.spec_id = 0
    return entry


def read_positions(table: TopicTable, path: str, data_file: str) -> NDArray[np.int64]:
    """The positions that a file of ours takes out of a data file, rising. Raises Corrupt, Unavailable."""
    with table.warehouse.open_input(path) as source:
        try:
            held = pq.read_table(source, page_checksum_verification=True, use_threads=False)
            named = pc.unique(held.column(_PATH)).to_pylist()
            positions: NDArray[np.int64] = held.column(_POSITION).to_numpy()
        except (pa.ArrowException, OSError, KeyError) as error:
            raise _corrupt(table, path, f"a delete file can't be read: {error}") from error
    if named != [data_file] or bool((np.diff(positions) <= 0).any()):
        raise _corrupt(table, path, "a delete file is not one that Floeberg wrote")
    return positions


def _corrupt(table: TopicTable, path: str, problem: str) -> Corrupt:
    return Corrupt(problem, topic=table.topic, file=path)


def _long(value: Any) -> bytes:
    return int(value).to_bytes(8, "little", signed=True)
