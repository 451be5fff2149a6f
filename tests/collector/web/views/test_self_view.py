"""The view of the collector itself in a real browser."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, expect

from tests.browser import Visitor
from tests.collector.process import Process

from .runs import PATIENCE_MS


def test_it_says_what_the_collector_receives_and_serves(hours: Process, browser: Browser) -> None:
    visitor = Visitor(browser, width=360, dark=True)
    page = visitor.page
    page.goto(f"{hours.url}/self")
    expect(page.locator("#well")).to_contain_text("nothing is wrong", timeout=PATIENCE_MS)
    expect(page.locator("#received")).to_contain_text(re.compile("[0-9]+ accepted"))
    expect(page.locator("#evaluated")).to_contain_text(re.compile("Jobs evaluated here\\s*[1-9]"))
    expect(page.locator("#served")).to_contain_text("Connections")
    text = page.locator("#received").inner_text()
    assert "unknown" in text, "a rate needs a second reading"
    expect(page.locator("#received")).to_contain_text("a second", timeout=PATIENCE_MS)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert not re.search("NaN|undefined|null|Infinity", page.locator("main").inner_text())
    assert visitor.errors == []
    page.close()
