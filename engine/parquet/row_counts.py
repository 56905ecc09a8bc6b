"""How many rows lie together in a file. Settings are checked against these without pyarrow."""

ROW_GROUP_ROWS = 64 * 1024
"""Rows of a row group: the unit a reader fetches in one piece."""

DEFAULT_WINDOW_ROWS = 256 * 1024
MOST_WINDOW_ROWS = 1024 * 1024
"""Whoever writes or proves a window of sorted row groups holds it in memory, and a fetch reads a page of each group."""
