"""What a reader does with the page: keys, selecting, copying, printing."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser import Visitor
from tests.collector.process import Process
from tests.collector.web.shown import evaluated, opened

UPDATES_MS = 6_500
"""Several live updates and one round of questions."""
SELECT = """command => {
    const range = document.createRange();
    range.selectNodeContents(command);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
}"""


@pytest.fixture
def page(straggling: Process, visitor: Visitor) -> Page:
    return evaluated(straggling, visitor)


def test_a_selected_command_stays_selected_while_the_page_is_live(page: Page) -> None:
    command = page.locator("aside .command")
    command.evaluate(SELECT)
    before = page.evaluate("getSelection().toString()")
    assert before.startswith("stepwatch runbook TrainingStraggler --incident ")
    page.wait_for_timeout(UPDATES_MS)
    assert page.evaluate("getSelection().toString()") == before


def test_keys_lead_through_the_page(page: Page, visitor: Visitor) -> None:
    page.keyboard.press("g")
    page.keyboard.press("n")
    expect(page.locator("nav [aria-current=page]")).to_have_text("Nodes")
    page.keyboard.press("g")
    page.keyboard.press("f")
    expect(page.locator("#jobs")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_label("Keys", exact=True).last).to_contain_text("go to Nodes")
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.closest('.search') !== null")
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none", "the focus is seen"
    assert visitor.errors == []


def test_a_copied_incident_is_markdown_without_active_markup(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy", exact=True).first.click()
    expect(page.locator("#respond [role=status]")).to_have_text("Copied.")
    text = page.evaluate("navigator.clipboard.readText()")
    first, detail, address = text.split("\n\n")
    assert first.startswith("**") and first.endswith("**") and "rank 2 on node\\-0" in first
    assert not re.search(r"(?<!\\)[<>\[\]`]", detail)
    assert re.fullmatch(r"http://\S+/incidents/[0-9a-f]+", address)


def test_moments_have_utc_in_their_hover_text(page: Page) -> None:
    opened(page, "incidents")
    moments = page.locator("#incidents-table time")
    expect(moments.first).to_have_attribute("title", re.compile("^20[0-9-]+ [0-9:]+ UTC$"))


def test_paper_gets_the_content_alone(page: Page) -> None:
    page.emulate_media(media="print")
    expect(page.locator(".top")).to_be_hidden()
    expect(page.get_by_role("button", name="Acknowledge")).to_be_hidden()
    expect(page.locator(".verdict h1")).to_be_visible()
