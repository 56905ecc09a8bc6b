"""The pictures of the status page that README and docs show, over topics that are made up: ``make pictures``."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.serving.status.browser_page import CHROMIUM, FLAGS, shown
from tests.serving.status.page_stage import made_up

WIDTH, HEIGHT = 1280, 1240
NO_SPACE = (
    "the warehouse does not answer: No space left on device (topic clicks, partition 1)."
    " Next: make room on the warehouse's disk"
)


def main(folder: Path) -> None:
    stage = made_up(7, 4)
    (end,) = (part.tiered_end for part in stage.status.partitions if (part.topic, part.partition) == ("clicks", 1))
    late = {"stable_end": (end or 0) + 610_000, "lag_ms": 155_000, "behind_ms": 95_000}
    stage.change("clicks", 1, problem=NO_SPACE, problem_kind="unavailable", **late)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for scheme in ("light", "dark"):
            with shown(browser, stage, viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme) as page:
                page.get_by_role("button", name="clicks", exact=True).click()
                page.locator(".partitions li").first.wait_for()
                page.get_by_role("heading", name="Topics").evaluate("node => node.focus({ preventScroll: true })")
                page.evaluate("document.activeElement.blur()")
                # Bars grow to their length within half a second.
                page.wait_for_function("document.getAnimations().every(one => one.playState === 'finished')")
                page.get_by_text(re.compile(r"· for [1-9]")).first.wait_for()
                page.screenshot(path=folder / f"status_page_{scheme}.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
