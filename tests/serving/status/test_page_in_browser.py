"""The page in a real browser: what a person sees and does, with the keyboard, on a phone, in the dark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from serving.status.routes import StatusAccess
from tests.serving.status.browser_page import CHROMIUM, FLAGS, shown
from tests.serving.status.page_stage import made_up

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FULL = "the warehouse does not answer (topic clicks, partition 1). Next: make room"

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH: Debian's package chromium has one"),
    pytest.mark.xdist_group("chromium"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


def names(page: Page) -> list[str]:
    return page.locator(".topic .fold").all_text_contents()


def test_page_changes_in_place_and_keeps_what_a_person_was_at(browser: Browser) -> None:
    stage = made_up(10, 3)
    with shown(browser, stage) as page:
        assert page.get_by_role("heading", name="Problems").is_hidden()
        button = page.get_by_role("button", name="orders", exact=True)
        button.focus()
        page.keyboard.press("Enter")
        page.get_by_role("img", name=re.compile("^Partition 2: ")).wait_for()
        page.evaluate("window.stays = document.querySelector('.topic'); window.scrollTo(0, 300)")
        stage.change("clicks", 1, problem=FULL, problem_kind="unavailable", behind_ms=60_000)
        problem = page.locator("#problems li")
        problem.wait_for()
        assert problem.locator("h3").text_content() == "the warehouse does not answer"
        assert "topic clicks, partition 1" in (problem.locator(".where").text_content() or "")
        assert problem.locator(".step").text_content() == "What to do: make room"
        assert (problem.locator("a").get_attribute("href") or "").endswith("runbook#partition-failing")
        assert page.locator("#health").text_content() == "needs a look"
        assert page.locator("#told").text_content() == "1 problem"
        assert names(page)[0] == "clicks"
        # Neither was the page loaded again, nor did the row that moved lose the focus, nor was another row made.
        assert page.evaluate("window.stays.isConnected")
        assert page.evaluate("document.activeElement.textContent") == "orders"
        assert button.get_attribute("aria-expanded") == "true"
        stage.change("clicks", 1, problem=None, behind_ms=0)
        page.locator("#over li").wait_for()
        assert page.locator("#health").text_content() == "healthy"
        assert page.locator("#told").text_content() == "All problems are over"


def test_page_that_gets_no_answer_says_so_and_goes_on_when_it_does(browser: Browser) -> None:
    stage = made_up(2, 1)
    with stage.open(), browser.new_context() as context:
        page = context.new_page()
        page.goto(stage.url)
        page.locator("#topic-rows tr").first.wait_for()
        page.route("**/page/overview*", lambda route: route.abort())
        page.get_by_text("The daemon does not answer").wait_for()
        assert page.locator(".topic").count() == 2
        page.unroute("**/page/overview*")
        page.get_by_role("alert").wait_for(state="hidden")


def test_topics_are_filtered_sorted_and_folded_by_the_keyboard_alone(browser: Browser) -> None:
    stage = made_up(230, 1)
    stage.change("sessions.3", 0, stable_end=10**9)
    stage.change("prices.7", 0, problem=FULL, problem_kind="corrupt")
    with shown(browser, stage) as page:
        assert page.locator(".topic").count() == 20
        assert names(page)[0] == "prices.7"
        page.keyboard.press("/")
        page.keyboard.type("SESSIONS")
        page.locator("#topic-count").get_by_text("23 of 230").wait_for()
        assert len(names(page)) == 23
        page.get_by_label("Sort by").select_option("lag")
        assert names(page)[0] == "sessions.3"
        page.locator("#filter").focus()
        page.keyboard.press("Escape")
        page.get_by_label("Show").select_option("troubled")
        assert names(page) == ["prices.7"]
        page.get_by_label("Show").select_option("all")
        assert page.locator(".topic").count() == 100
        page.get_by_role("button", name="Show all 230").click()
        assert page.locator(".topic").count() == 230
        page.get_by_role("button", name="Topic", exact=True).press("Enter")
        assert names(page) == sorted(names(page))


def test_first_answer_brings_a_screenful_of_topics_and_the_others_come_when_they_are_asked_for(
    browser: Browser,
) -> None:
    stage = made_up(230, 1)
    with shown(browser, stage) as page:
        assert names(page) == sorted(names(page))
        stage.change("telemetry.9", 0, problem=FULL, problem_kind="corrupt")
        page.locator(".topic.bad").wait_for()
        assert names(page)[0] == "telemetry.9", "a topic that was not among the first is, once it needs a look"
        page.get_by_role("button", name="Show all 230").click()
        page.locator(".topic").nth(229).wait_for()
        page.get_by_role("button", name="Show all").wait_for(state="hidden")
        assert page.locator("#topic-count").text_content() == "230"


def test_partitions_beyond_the_first_hundred_are_a_button_away(browser: Browser) -> None:
    with shown(browser, made_up(1, 130)) as page:
        page.get_by_role("button", name="orders", exact=True).click()
        page.get_by_role("button", name="Show more: 100 of 130").click()
        page.get_by_role("img", name=re.compile("^Partition 129: ")).wait_for()
        bar = page.get_by_role("img", name=re.compile("^Partition 0: "))
        parts = bar.locator("i").evaluate_all("all => all.filter(one => !one.hidden).map(one => one.className)")
        assert parts[-1] in {"part verified", "part local"}
        assert bar.evaluate("node => node.getBoundingClientRect().width") > 50


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_what_is_behind_them_and_nothing_is_without_a_name(browser: Browser, scheme: Any) -> None:
    stage = made_up(3, 2)
    stage.change("orders", 1, problem=FULL, problem_kind="unavailable", behind_ms=60_000)
    with shown(browser, stage, color_scheme=scheme) as page:
        page.get_by_role("button", name="orders", exact=True).click()
        page.locator(".partitions li").first.wait_for()
        faint = page.evaluate(CONTRASTS)
        assert faint == []
        unnamed = "all => all.filter(one => !one.ariaLabel && !one.textContent.trim() && !one.labels?.length).length"
        assert page.locator("button, select, input, meter, [role=img]").evaluate_all(unnamed) == 0
        assert page.locator("html").get_attribute("lang") == "en"
        assert page.locator("h1").count() == 1


CONTRASTS = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (color) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => { const part = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b); };
  const behind = (node) => { for (; node; node = node.parentElement) {
    const color = rgba(getComputedStyle(node).backgroundColor);
    if (color[3] === 255) return color; } return [255, 255, 255]; };
  const hasText = (node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
  const isSeen = (node) => node.checkVisibility() && !node.closest(".hidden-text, .skip");
  return [...document.querySelectorAll("body *")].filter((node) => isSeen(node) && hasText(node)).flatMap((node) => {
      const [one, other] = [light(rgba(getComputedStyle(node).color)), light(behind(node))].sort((a, b) => b - a);
      const contrast = (one + 0.05) / (other + 0.05);
      return contrast < 4.5 ? [`${node.textContent.trim().slice(0, 40)}: ${contrast.toFixed(2)}`] : [];
    });
}"""
"""Texts with a contrast below 4.5 to what is behind them (WCAG 2.2, 1.4.3)."""


def test_script_shows_the_words_that_the_page_was_sent_with(browser: Browser) -> None:
    stage = made_up(1, 1)
    stage.change("orders", 0, lag_ms=0)
    with shown(browser, stage) as page:
        sent = dict(re.findall(r'data-text="(\w+)"[^>]*>([^<]*)<', page.request.get(stage.url).text()))
        assert sent["stored_more"] == "1 topic, 1 partition"
        read = "all => Object.fromEntries(all.map(one => [one.dataset.text, one.textContent]))"
        assert page.locator("[data-text]").evaluate_all(read) == sent
        stage.status = replace(stage.status, commit_count=1, cluster_id="another")
        page.get_by_text("1 commit since the start").wait_for()
        assert page.locator("[data-text=cluster]").text_content() == "another"


def test_phone_shows_everything_without_scrolling_sideways(browser: Browser) -> None:
    stage = made_up(10, 4)
    stage.change("telemetry", 1, problem=FULL + " " + "x" * 90, problem_kind="corrupt")
    with shown(browser, stage, viewport={"width": 360, "height": 780}, has_touch=True) as page:
        page.get_by_role("button", name="telemetry", exact=True).tap()
        page.locator(".partitions li").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert page.locator(".topics thead").is_hidden()
        heights = page.locator(".fold, .choice button").evaluate_all("all => all.map(one => one.offsetHeight)")
        assert min(heights) >= 24


def test_charts_show_the_length_that_was_chosen(browser: Browser) -> None:
    with shown(browser, made_up(2, 1)) as page:
        label = page.locator(".plot").first
        assert "over the last 3 h" in (label.get_attribute("aria-label") or "")
        with page.expect_response(re.compile("hours=12")):
            page.get_by_role("button", name="12 h").press("Enter")
        page.get_by_role("img", name=re.compile("over the last 12 h")).first.wait_for()
        assert page.get_by_role("button", name="12 h").get_attribute("aria-pressed") == "true"


def test_page_behind_a_token_asks_for_it_once_and_its_script_needs_no_other(browser: Browser) -> None:
    stage = made_up(3, 2)
    stage.access = StatusAccess(tokens=("secret",))
    with shown(browser, stage, http_credentials={"username": "anybody", "password": "secret"}) as page:
        page.get_by_role("button", name="orders", exact=True).click()
        page.get_by_role("img", name=re.compile("^Partition 1: ")).wait_for()
    with stage.open(), browser.new_context() as context:
        refused = context.request.get(f"{stage.url}/page/overview")
        assert (refused.status, "Basic" in refused.headers["www-authenticate"]) == (401, True)


def test_page_without_script_shows_problems_and_totals(browser: Browser) -> None:
    stage = made_up(4, 2)
    stage.change("orders", 0, problem=FULL, problem_kind="corrupt")
    with stage.open(), browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(stage.url)
        assert page.get_by_text("the warehouse does not answer").is_visible()
        assert page.get_by_text("4 topics, 8 partitions").is_visible()
        assert "This page shows more with JavaScript" in page.locator("noscript p").inner_text()
        page.get_by_role("link", name="What it means").click()
        assert page.get_by_role("heading", name="Partition stopped").is_visible()
