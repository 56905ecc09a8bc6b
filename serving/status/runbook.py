"""The runbook as a page of the daemon's own, so that a problem's entry is at hand where no other host is."""

from __future__ import annotations

import re
from html import escape
from importlib import resources
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt

NAME = "runbook.md"

_HEAD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Runbook · Floeberg</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="{icon}">
<link rel="stylesheet" href="{style}"></head><body class="document"><main><p><a href="./">Status</a></p>
"""


def runbook_text() -> str | None:
    """As it was installed, or as it lies in the repository; None where it is in neither."""
    installed = resources.files("serving.status") / "static" / NAME
    for place in (installed, Path(__file__).parents[2] / "docs" / NAME):
        if place.is_file():
            return place.read_text()
    return None


def anchor_of(title: str) -> str:
    """A heading's anchor, as GitHub makes it."""
    return re.sub(r"[^a-z0-9 _-]", "", title.lower()).replace(" ", "-")


def runbook_page(*, style: str, icon: str) -> str:
    """HTML. Links to other documents, which are not at hand here, become plain text."""
    text = runbook_text()
    if text is None:
        return _HEAD.format(style=escape(style), icon=escape(icon)) + "<p>The runbook was not installed.</p>"
    parser = MarkdownIt("commonmark").enable("table")
    tokens = parser.parse(re.sub(r"\[([^\]]+)\]\((?!#)[^)]*\)", r"\1", text))
    for heading, content in pairwise(tokens):
        if heading.type == "heading_open":
            heading.attrSet("id", anchor_of(content.content))
    body = parser.renderer.render(tokens, parser.options, {})
    return f"{_HEAD.format(style=escape(style), icon=escape(icon))}{body}</main></body></html>"
