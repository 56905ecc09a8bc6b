"""Why rows keep their bytes beside their columns, as commands that make columns again tell it."""

from __future__ import annotations

from collections import Counter

from rich.markup import escape

from floeberg.console import out

REASONS_SHOWN = 10


def show_kept_reasons(reasons: Counter[str]) -> None:
    """The most frequent first; of more than are shown, how many."""
    for reason, rows in reasons.most_common(REASONS_SHOWN):
        out.print(f"    {rows:,} keep their bytes: {escape(reason)}", soft_wrap=True)
    if len(reasons) > REASONS_SHOWN:
        out.print(f"    and {len(reasons) - REASONS_SHOWN} more reasons")
