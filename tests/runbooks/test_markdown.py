"""Text within Markdown is shown literally, in a renderer that passes HTML."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from stepwatch.runbooks.markdown import Markdown, block, inline
from stepwatch.signals.plain_text import plain_line

RENDER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render
MARKUP = st.text(st.sampled_from("`*_[]()<>&#!|~-+=.:1\\ab \n\t\"'/"), max_size=40)


class RenderedPage(HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def words(text: str) -> str:
    return " ".join(text.split())


@settings(deadline=None, max_examples=500)
@given(MARKUP)
def test_a_line_is_a_paragraph_and_nothing_else(text: str) -> None:
    page = RenderedPage(RENDER(f"before\n\n{block(text)}\n\nafter\n"))
    assert set(page.names) == {"p"}
    assert words(page.text) == words(f"before {plain_line(text)} after")


@settings(deadline=None, max_examples=300)
@given(MARKUP)
def test_an_item_is_an_item(text: str) -> None:
    page = RenderedPage(RENDER(f"- first\n- {block(text)}\n- last\n"))
    assert page.names == ["ul", "li", "li", "li"]
    assert words(page.text) == words(f"first {plain_line(text)} last")


@settings(deadline=None, max_examples=300)
@given(MARKUP, MARKUP)
def test_a_cell_is_a_cell(first: str, second: str) -> None:
    page = RenderedPage(RENDER(f"| a | b |\n|---|---|\n| {inline(first)} | {inline(second)} |\n"))
    assert page.names == ["table", "thead", "tr", "th", "th", "tbody", "tr", "td", "td"]
    assert words(page.text) == words(f"a b {plain_line(first)} {plain_line(second)}")


@settings(deadline=None, max_examples=300)
@given(MARKUP)
def test_a_title_is_a_title(text: str) -> None:
    page = RenderedPage(RENDER(f"# About {inline(text)} here\n"))
    assert page.names == ["h1"] and words(page.text) == words(f"About {plain_line(text)} here")


@pytest.mark.parametrize("text", ["llama-7b", "a_b_c", "-3 ms", "2026-11-26", "1.5 s", "45 % (x)"])
def test_what_means_nothing_stays_readable(text: str) -> None:
    assert block(text) == text == inline(text)


def test_markdown_of_our_own_is_not_escaped_again() -> None:
    assert block(Markdown("see `x`")) == "see `x`" == inline(Markdown("see `x`"))
