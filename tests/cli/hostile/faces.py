"""What a reader of a terminal, of Markdown or of HTML would make of a text, by other rules."""

from __future__ import annotations

import unicodedata
from html.parser import HTMLParser

from markdown_it import MarkdownIt

from stepwatch.runbooks.placeholders import NAMES

_HARMLESS = {"h1", "h2", "h3", "p", "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td"}
_HARMLESS |= {"code", "pre", "hr", "em", "strong", "a"}
_DOCUMENT = {"html", "head", "body", "main", "meta", "title", "style", "link", "div", "span"}
_DOCUMENT |= {"svg", "g", "rect", "text", "line", "path"}


def obeyed(text: str) -> set[str]:
    """The characters that a terminal obeys, or that nobody sees, but for newline and tab."""
    unseen = {
        character for character in text if unicodedata.category(character) in ("Cc", "Cf", "Cs")
    }
    return (unseen | (set(text) & {"\ufdd0", "\ufdd1"})) - {"\n", "\t"}


class Elements(HTMLParser):
    """Elements, the addresses of links, and texts by the element that they stand in."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.addresses: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.scripted: list[str] = []
        self._within: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self._within.append(tag)
        self.scripted += [name for name, _ in attrs if name.startswith("on")]
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        self.texts.append((self._within[-1] if self._within else "", data))

    def active(self) -> set[str]:
        """Elements and attributes that a text has made, if it made any."""
        placeholders = {name.replace("_", "") for name in NAMES} | set(NAMES)
        unknown = self.names - _HARMLESS - _DOCUMENT - placeholders
        away = {
            address
            for address in self.addresses
            if address.startswith(("javascript:", "x", "data:a"))
        }
        made_elements = {
            words
            for where, words in self.texts
            if (where in ("h1", "h2") and words.strip() == "heading")
            or (where == "code" and words == "b")
        }
        return unknown | away | made_elements | set(self.scripted)


def markdown_elements(text: str) -> Elements:
    """What a wiki that lets HTML through makes of Markdown."""
    return Elements(MarkdownIt("commonmark", {"html": True}).enable("table").render(text))


def cells(markdown: str) -> set[tuple[int, int]]:
    """For each table row of Markdown: how many cells its table has, and how many it has."""
    pairs, head = set(), 0
    for line in markdown.splitlines():
        if not line.startswith("|"):
            head = 0
            continue
        count = line.replace("\\\\", "").replace("\\|", "").count("|")
        head = head or count
        pairs.add((head, count))
    return {pair for pair in pairs if pair[0] != pair[1]}
