"""The view of reports in a real browser, over a real collector."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, expect

from tests.browser import Visitor
from tests.collector.made import JOB
from tests.collector.process import Process

from .runs import OTHER, PATIENCE_MS


def test_a_report_says_where_device_time_went(hours: Process, visitor: Visitor) -> None:
    page = visitor.page
    page.goto(f"{hours.url}/reports")
    expect(page.locator("#jobs tbody tr")).to_have_count(2, timeout=PATIENCE_MS)
    assert [page.locator("#jobs tbody a").nth(place).inner_text() for place in (0, 1)] == [
        *(JOB, OTHER)
    ], "the most device-time first"
    expect(page.locator("#causes tbody tr").first).to_contain_text("productive")
    expect(page.locator("#causes")).to_contain_text("straggling")
    expect(page.locator("#causes")).to_contain_text("no rate")
    expect(page.locator("#classes tbody tr")).to_contain_text("experiment")
    expect(page.locator("#incidents tbody tr").first).to_contain_text("device-")
    assert page.locator("#days g").count() == 7
    page.get_by_role("button", name="28 days").click()
    expect(page.locator("#days g")).to_have_count(28)
    assert page.url.endswith("?days=28"), "a link shows the same"
    page.emulate_media(media="print")
    expect(page.get_by_role("button", name="Print")).to_be_hidden()
    expect(page.locator("#days .columns")).to_be_visible()
    assert not re.search("NaN|undefined|null|Infinity", page.locator("main").inner_text())
    assert visitor.errors == []


def test_a_period_without_an_account_says_so_on_a_phone(
    collector: Process, browser: Browser
) -> None:
    visitor = Visitor(browser, width=360, dark=True)
    visitor.page.goto(f"{collector.url}/reports?days=1")
    expect(visitor.page.locator("#empty")).to_contain_text("No device-time", timeout=PATIENCE_MS)
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 360
    assert visitor.errors == []
    visitor.page.close()
