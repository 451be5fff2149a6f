"""One page, a runbook or a playbook: Markdown with fixed sections, and its problems."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from . import placeholders

SECTIONS = (
    "Meaning",
    "Impact",
    "First five minutes",
    "Diagnosis",
    "Mitigation",
    "Verification",
    "Escalation",
    "False positives",
    "Last drill",
)
"""Every page's sections in this order: a reader finds the same structure on all pages."""

PLAYBOOK_SECTIONS = ("Question", "Look at", "Decide", "Verify", "Undo")
"""Every playbook's sections: the decision, its facts, and how to undo it."""

_DRILL = "Last drill"
_RUNS = re.compile(r"(?:^|\s)(?:stepwatch|make|python) |tests/")
_VERB = re.compile(r"(?<![\w/.-])stepwatch +([a-z][\w-]*)")


def verbs(markdown: str) -> Iterator[tuple[int, str]]:
    """Yield line number and verb for each `stepwatch` command in code."""
    for number, text in placeholders.code(markdown):
        for verb in _VERB.findall(text):
            yield number, verb


@dataclass(frozen=True)
class Page:
    """A runbook or playbook: name, location, Markdown and required sections.

    A runbook is named after its alert.
    """

    name: str
    where: str
    markdown: str
    sections: tuple[str, ...] = SECTIONS

    def problems(self) -> Iterator[tuple[int, str]]:
        """Yield line number and text for each problem that makes the page unusable."""
        yield from self._shape()
        for number, name in placeholders.unknown(self.markdown):
            allowed = " ".join(f"{{{placeholder}}}" for placeholder in placeholders.NAMES)
            yield number, f"unknown placeholder {{{name}}}; use one of {allowed}"
        if self.markdown.count("```") % 2:
            yield 1, "a code fence is not closed; close it"
        yield from self._drill()

    def _shape(self) -> Iterator[tuple[int, str]]:
        lines = self.markdown.splitlines()
        if not lines or lines[0] != f"# {self.name}":
            yield 1, f"the first line must be '# {self.name}'"
        headings = [line[3:].strip() for line in lines if line.startswith("## ")]
        if headings != list(self.sections):
            yield 1, f"sections must be, in this order: {', '.join(self.sections)}"
        yield from _empty_sections(lines)

    def _drill(self) -> Iterator[tuple[int, str]]:
        """Yield a problem if the drill section names no command to run."""
        heading, lines = f"## {_DRILL}", self.markdown.splitlines()
        if _DRILL in self.sections and heading in lines:
            start = lines.index(heading) + 1
            commands = (text for number, text in placeholders.code(self.markdown) if number > start)
            is_written = any(line.strip() for line in lines[start:])
            if is_written and not any(_RUNS.search(text) for text in commands):
                yield start, f"section {_DRILL!r} names no command and no test; write what to run"


def _empty_sections(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield headings without content, such as an unwritten drill or false positive section."""
    headings = [number for number, line in enumerate(lines) if line.startswith("## ")]
    for start, end in zip(headings, [*headings, len(lines)][1:], strict=True):
        if not any(line.strip() for line in lines[start + 1 : end]):
            yield start + 1, f"section {lines[start][3:].strip()!r} is empty; write it"
