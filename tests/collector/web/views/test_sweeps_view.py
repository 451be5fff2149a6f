"""The view of sweeps in a real browser, over a real collector."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect

from tests.browser import Visitor
from tests.collector.made import body, run_segments, with_facts
from tests.collector.process import Process

from .runs import PATIENCE_MS

RATES = ("0.001", "0.01", "0.1", "adaptive")


@pytest.fixture(scope="module")
def sweep(hours: Process) -> Process:
    """Four trials: those with a higher rate make more steps, and the last one's is no number."""
    for number, rate in enumerate(RATES):
        run = run_segments(20 + 10 * number, 2, job=f"lr-sweep-{number}")
        hours.send(body(with_facts(run, ("learning_rate", rate), ("model", "7b"))))
    return hours


def test_trials_are_ranked_and_drawn_by_a_setting(sweep: Process, visitor: Visitor) -> None:
    page = visitor.page
    page.goto(f"{sweep.url}/sweeps")
    page.locator("#empty").get_by_role("button", name="lr-sweep- (4 jobs)").click()
    rows = page.locator("#trials tbody tr")
    expect(rows).to_have_count(len(RATES), timeout=PATIENCE_MS)
    assert page.url.endswith("?match=lr-sweep-"), "a link shows the same"
    expect(rows.first).to_contain_text("lr-sweep-3")
    expect(rows.first).to_contain_text("adaptive")
    expect(page.locator("#best")).to_contain_text("lr-sweep-3")
    expect(page.locator("#scatter circle")).to_have_count(3)
    expect(page.locator("main")).to_contain_text("1 are not drawn: a number is unknown")
    page.locator(".behind > summary").click()
    dots = page.locator(".behind tbody tr")
    expect(dots).to_have_count(3)
    expect(dots.first).to_contain_text("lr-sweep-2")
    expect(dots.first).to_contain_text("0.1")
    page.get_by_label("Metric").select_option("step_seconds")
    expect(page.locator("#trials thead")).to_contain_text("Best step time")
    page.get_by_role("link", name="Compare the best 4").click()
    expect(page.locator("#runs .run")).to_have_count(4)
    assert not re.search("NaN|undefined|null|Infinity", page.locator("main").inner_text())
    assert visitor.errors == []


def test_no_trial_and_no_setting_are_explained_on_a_phone(sweep: Process, browser: Browser) -> None:
    visitor = Visitor(browser, width=360, dark=True)
    page = visitor.page
    page.goto(f"{sweep.url}/sweeps?match=nothing-")
    expect(page.locator("#empty")).to_contain_text("No job's name begins", timeout=PATIENCE_MS)
    page.goto(f"{sweep.url}/sweeps?match=lr-sweep-3")
    expect(page.locator("#no-setting")).to_contain_text("pass the configuration")
    page.goto(f"{sweep.url}/sweeps?match=lr-sweep-")
    expect(page.locator("#scatter circle").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert visitor.errors == []
    page.close()
