"""The page in a Chromium that is there already."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.serving.status.page_stage import PageStage

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")


@contextmanager
def shown(browser: Browser, stage: PageStage, **options: Any) -> Iterator[Page]:
    """The page, once it is complete. Fails where the script does, or where the browser refuses to load something."""
    wrong: list[str] = []
    with stage.open(), browser.new_context(**options) as context:
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.on("request", lambda asked: None if asked.url.startswith(stage.url) else wrong.append(asked.url))
        page.goto(stage.url)
        page.locator("#topic-rows tr").first.wait_for()
        page.locator(".plot canvas").last.wait_for()
        yield page
        assert wrong == []
