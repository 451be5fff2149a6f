"""Runbooks as trees of plain values."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from .common import OneOf

NODE_KINDS = (
    *("paragraph", "heading", "list", "steps", "item", "quote", "code", "hr"),
    *("text", "word", "strong", "emphasis", "link"),
)
"""Blocks, then parts of a line; `steps` is a numbered list, `word` is code within a line."""


class RunbookNode(TypedDict):
    """A part of a runbook."""

    kind: Annotated[str, OneOf(NODE_KINDS)]
    text: str
    """The text of a `text`, `word` or `code`; else empty."""
    href: str
    """The address of a `link`, http or https; else empty."""
    parts: list[RunbookNode]


class RunbookSection(TypedDict):
    """A section of a runbook."""

    title: str
    """Empty for the introduction."""
    nodes: list[RunbookNode]


class RunbookStep(TypedDict):
    """A numbered step."""

    text: str
    commands: list[str]


class RunbookAnswer(TypedDict):
    """A runbook, filled in for an incident if there is one."""

    name: str
    sections: list[RunbookSection]
    first_steps: list[RunbookStep]
    """The steps of the first five minutes."""
    incident: str | None
    job: str | None
