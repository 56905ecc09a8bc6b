"""What another program may do to the files of a table without harm to a record."""

from __future__ import annotations

import numpy as np
from pyiceberg.table import Table


def rewrite_in_no_order(table: Table) -> None:
    """As a rewrite sorted by another column would: all rows, in files of others, whose row groups hold any offsets."""
    rows = table.scan().to_arrow()
    with table.transaction() as transaction:
        transaction.set_properties({"write.parquet.row-group-limit": "70"})
        transaction.overwrite(rows.take(np.random.default_rng(5).permutation(rows.num_rows)))


def rewrite_one_file(table: Table) -> None:
    """The middle segment of one partition only: the others stay Floeberg's own."""
    wanted = "kafka_partition == 0 and kafka_offset >= 200 and kafka_offset < 400"
    table.overwrite(table.scan(wanted).to_arrow(), overwrite_filter=wanted)
