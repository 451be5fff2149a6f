"""The comparison of runs in a real browser, over a real collector."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, expect

from tests.browser import Visitor
from tests.collector.made import JOB
from tests.collector.process import Process

from .runs import EXCESS, OTHER, PATIENCE_MS, SECONDS, SLOW_FROM, STEPS


def test_two_runs_are_chosen_and_their_differences_shown(hours: Process, visitor: Visitor) -> None:
    page = visitor.page
    page.goto(f"{hours.url}/compare")
    expect(page.locator("#empty")).to_contain_text("Choose two to eight runs", timeout=PATIENCE_MS)
    page.locator("#empty").get_by_role("button", name=JOB).click()
    expect(page.locator("#empty")).to_contain_text("Choose a second run")
    page.get_by_label("Add a run").fill(OTHER)
    page.get_by_role("button", name="Add").click()
    rows = page.locator("#figures tbody tr")
    expect(rows).to_have_count(2, timeout=PATIENCE_MS)
    assert page.url.endswith(f"/compare?job={JOB}&job={OTHER}"), "a link shows the same"
    mean = (STEPS * SECONDS + (STEPS - SLOW_FROM) * EXCESS) / STEPS
    expect(rows.first).to_contain_text(f"{mean:.0f}.")
    expect(rows.last).to_contain_text(f"{SECONDS:.2f} s")
    expect(page.locator("#figures thead")).to_contain_text(f"Loss at step {STEPS - 1}")
    expect(page.locator("#changes tbody td")).to_have_text(["learning_rate", "0.0003", "0.001"])
    expect(page.locator("#curves canvas")).to_have_count(3)
    page.get_by_role("button", name="by time since start").click()
    expect(page.locator("#curves .unit")).to_have_text("elapsed")
    page.get_by_role("button", name="tokens/s").click()
    expect(page.locator("#curves canvas")).to_have_count(2)
    page.reload()
    expect(page.locator("#curves canvas")).to_have_count(2, timeout=PATIENCE_MS)
    page.get_by_label(f"Remove {OTHER}").click()
    expect(rows).to_have_count(1)
    assert not re.search("NaN|undefined|null|Infinity", page.locator("main").inner_text())
    assert visitor.errors == []


def test_a_run_that_does_not_exist_is_named_and_the_others_stay(
    hours: Process, browser: Browser
) -> None:
    visitor = Visitor(browser, width=360, dark=True)
    page = visitor.page
    page.goto(f"{hours.url}/compare?job={JOB}&job=none&metric=bleu&metric=loss")
    expect(page.get_by_role("alert")).to_contain_text("none: no such job", timeout=PATIENCE_MS)
    expect(page.locator("#curves canvas")).to_have_count(1)
    expect(page.locator("main")).to_contain_text(f"{JOB} has no bleu")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.close()
