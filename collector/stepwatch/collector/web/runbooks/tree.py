"""Markdown as a tree of plain values, which a page draws without HTML from text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from stepwatch.collector.web.schema.runbook import RunbookNode, RunbookSection

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

_PLAIN = {"softbreak": " ", "hardbreak": "\n"}
_KINDS = {
    "bullet_list": "list",
    "ordered_list": "steps",
    "list_item": "item",
    "blockquote": "quote",
    "fence": "code",
    "code_block": "code",
    "code_inline": "word",
    "em": "emphasis",
}
"""Names of Markdown's nodes whose names a reader of the tree may not know."""
_LINKS = ("http://", "https://")


def sections_of(text: str) -> list[RunbookSection]:
    """Return a Markdown page by its headings of the second level, the introduction first.

    The page's own heading is left out. Raw HTML is text.
    """
    # Verbs that read a runbook's commands work without the collector's packages.
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

    sections: list[RunbookSection] = [{"title": "", "nodes": []}]
    for node in SyntaxTreeNode(MarkdownIt("commonmark", {"html": False}).parse(text)).children:
        if node.type == "heading" and node.tag == "h2":
            sections.append({"title": _text(node), "nodes": []})
        elif node.tag != "h1":
            sections[-1]["nodes"] += _nodes([node])
    return sections


def _nodes(nodes: Iterable[SyntaxTreeNode]) -> Iterator[RunbookNode]:
    for node in nodes:
        if node.type == "inline":
            yield from _nodes(node.children)
        elif node.type == "text" or node.type in _PLAIN:
            yield _node("text", _PLAIN.get(node.type, node.content))
        elif node.type == "link" and not str(node.attrs.get("href", "")).startswith(_LINKS):
            yield from _nodes(node.children)
        else:
            yield _node(_KINDS.get(node.type, node.type), node.content, node)


def _node(kind: str, text: str, node: SyntaxTreeNode | None = None) -> RunbookNode:
    return {
        "kind": kind,
        "text": text,
        "href": "" if node is None else str(node.attrs.get("href", "")),
        "parts": [] if node is None else [*_nodes(node.children)],
    }


def _text(node: SyntaxTreeNode) -> str:
    return node.content if node.type == "inline" else "".join(map(_text, node.children))
