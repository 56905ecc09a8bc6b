"""Runs of a row group's pages, as readers by offset ask for them."""

from __future__ import annotations

import numpy as np

from engine.parquet.page_index import PageLayout
from engine.parquet.page_reader import PageRun


def pages_from(layout: PageLayout, first_page: int, *, least_rows: int) -> PageRun:
    """From ``first_page`` on as many pages as hold ``least_rows`` rows, or the rest of the row group."""
    first_row = int(layout.first_row[first_page])
    end_page = int(np.searchsorted(layout.first_row, first_row + max(least_rows, 1), "left"))
    end_page = min(max(end_page, first_page + 1), layout.page_count)
    return PageRun(
        first_row=first_row, end_row=int(layout.first_row[end_page]), first_page=first_page, end_page=end_page
    )
