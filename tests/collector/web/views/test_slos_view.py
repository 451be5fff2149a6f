"""The views of objectives in a real browser, over a real collector."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, expect

from tests.browser import Visitor
from tests.collector.made import JOB
from tests.collector.process import Process

from .runs import OTHER, PATIENCE_MS


def test_the_least_budget_is_first_and_leads_to_what_ate_it(
    hours: Process, visitor: Visitor
) -> None:
    page = visitor.page
    page.goto(f"{hours.url}/slos")
    rows = page.locator("#slos tbody tr")
    expect(rows).to_have_count(2, timeout=PATIENCE_MS)
    expect(rows.first).to_contain_text(JOB)
    expect(rows.first.locator(".budget")).to_contain_text(re.compile("[56][0-9]% left"))
    expect(rows.last).to_contain_text(OTHER)
    expect(rows.last.locator(".budget")).to_contain_text("100% left")
    expect(page.locator("#classes tbody tr")).to_contain_text("2 of 2")
    page.locator("#classes").get_by_role("button", name="experiment").click()
    assert page.url.endswith("?class=experiment"), "the address holds the view"
    rows.first.get_by_role("link", name="goodput").click()
    expect(page.locator("#title")).to_contain_text("goodput: Kept: 5", timeout=PATIENCE_MS)
    expect(page.locator("#burndown canvas")).to_be_visible()
    expect(page.locator("#burndown .sign.bad").first).to_be_visible()
    expect(page.locator("#causes")).to_contain_text("straggling")
    expect(page.locator("#incidents tbody tr").first).to_contain_text("device-")
    assert not re.search("NaN|undefined|null|Infinity", page.locator("main").inner_text())
    assert visitor.errors == []


def test_an_objective_that_is_too_early_has_words_and_no_figure(
    straggling: Process, visitor: Visitor
) -> None:
    page = visitor.page
    page.goto(f"{straggling.url}/slos?job={JOB}&name=goodput")
    expect(page.locator("#title")).to_contain_text("Too early", timeout=PATIENCE_MS)
    expect(page.locator("#no-burndown")).to_contain_text("a budget is evaluated after")
    page.goto(f"{straggling.url}/slos?job={JOB}&name=none")
    expect(page.locator("main")).to_contain_text("It has: goodput", timeout=PATIENCE_MS)


def test_a_fleet_without_jobs_learns_where_objectives_come_from(
    collector: Process, browser: Browser
) -> None:
    visitor = Visitor(browser, width=360, dark=True)
    visitor.page.goto(f"{collector.url}/slos")
    expect(visitor.page.locator("#empty")).to_contain_text("objectives", timeout=PATIENCE_MS)
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 360
    assert visitor.errors == []
    visitor.page.close()
