"""No text that a record, a note or a silence holds acts in a browser that shows the pages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Dialog, Page, expect
from prometheus_client.parser import text_string_to_metric_families

from tests.browser import Visitor, opened_browser
from tests.collector.made import JOB
from tests.collector.process import Process

from .faces import obeyed
from .planted import FUNCTION, LINE, PART, TOGETHER, incidents

_ACTED = """() => [...document.querySelectorAll("img, script:not([src]), iframe, [onerror]")]
  .concat([...document.querySelectorAll("a")].filter((a) => !/^https?:/.test(a.protocol)))
  .map((each) => each.outerHTML)"""
PATIENCE_MS = 60_000


def look(visitor: Visitor, url: str, until: str) -> Page:
    """A page once the element shows that its data came."""
    visitor.page.goto(url)
    expect(visitor.page.locator(until).first).to_be_visible(timeout=PATIENCE_MS)
    return visitor.page


@pytest.mark.parametrize("name", TOGETHER)
def test_pages_show_text_and_no_element_of_it(name: str, planted: Callable[[str], Path]) -> None:
    place = planted(name)
    process = Process(place.parent)
    try:
        process.start()
        process.wait_ready()
        check_metrics(process.url)
        with opened_browser() as browser:
            check(Visitor(browser), process.url, dict(incidents(place)))
    finally:
        process.end()


def check_metrics(url: str) -> None:
    """Look at what Prometheus scrapes."""
    scraped = httpx.get(f"{url}/metrics").text
    assert "Wo" in scraped and obeyed(scraped) == set()
    assert list(text_string_to_metric_families(scraped)), "it reads what there is"


def check(visitor: Visitor, url: str, runbooks: dict[str, str]) -> None:
    """Look at every page."""
    dialogs: list[str] = []

    def note(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    visitor.page.on("dialog", note)
    pages = {
        "/": "#jobs tbody tr",
        f"/jobs/{JOB}": ".verdict",
        "/nodes": "tbody tr",
        "/nodes/node-0": "tbody tr",
        **{f"/incidents/{identity}": "#evidence :is(li, dd, p)" for identity in runbooks},
        **{
            f"/runbooks/{book}?incident={identity}": "#page h1"
            for identity, book in runbooks.items()
        },
    }
    texts = {}
    for path, until in pages.items():
        page = look(visitor, f"{url}{path}", until)
        page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
        texts[path] = page.locator("body").inner_text()
        assert page.evaluate(_ACTED) == [], path
    assert dialogs == [] and visitor.errors == []
    assert [
        tag for tag in (PART, "Wb", "Wt", FUNCTION, LINE) if tag not in "".join(texts.values())
    ] == []
    assert {path: obeyed(text) for path, text in texts.items() if obeyed(text)} == {}
