"""Measures the language of a checkout: hard constructions in prose, and empty names.

Prose is every docstring and comment of the parts, and every Markdown document. A name is any
variable or parameter that Python code assigns, tests included.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

EMPTY_NAMES = frozenset(
    {"after", "again", "alike", "alone", "any", "at", "before", "beside", "both", "by", "done"}
    | {"each", "early", "far", "found", "from", "given", "gone", "heard", "held", "here", "kept"}
    | {"known", "late", "left", "like", "made", "mine", "none", "of", "one", "other", "others"}
    | {"own", "rest", "said", "same", "seen", "so", "some", "such", "taken", "that", "their"}
    | {"theirs", "them", "there", "these", "those", "to", "told", "what", "which", "who", "whose"}
)
"""Pronouns, participles and prepositions, which do not name a value."""


class Mark(NamedTuple):
    """A construction that makes sentences hard, and how often 1,000 words may have it."""

    name: str
    pattern: str
    most: float


MARKS = (
    Mark("pronoun for a person", r"nobody|somebody|someone|whoever|whomever|anybody", 0.2),
    Mark("clause as a noun", r"what (?:is|are|was|were|it|they)", 0.4),
    Mark("of", r"of", 25.0),
    Mark("chained reference", r"of which|by then|such a|those that|of these|of those", 0.6),
    Mark(
        "idiom", r"anew|once more|go(?:es)? on|give[ns]? back|stands?|comes? back|let go|lies", 0.5
    ),
)
"""The limits exceed the rates of alertmanager, gpud, httpx and client_python."""
MOST_EMPTY_NAMES = 0.01
"""Share of assigned names that may be empty ones."""


class Prose(NamedTuple):
    """The number of words in a text, and the number of matches of each mark."""

    words: int
    marks: dict[str, int]

    def rate(self, mark: Mark) -> float:
        """Occurrences of a mark in 1,000 words; 0 without words."""
        return 1000 * self.marks[mark.name] / self.words if self.words else 0.0


def measure(texts: Iterator[str]) -> Prose:
    """Count the words and marks of some texts."""
    words, marks = 0, Counter({mark.name: 0 for mark in MARKS})
    for text in texts:
        words += len(re.findall(r"[A-Za-z']+", text))
        for mark in MARKS:
            marks[mark.name] += len(re.findall(rf"\b(?:{mark.pattern})\b", text, re.IGNORECASE))
    return Prose(words, dict(marks))


def tracked_files(suffix: str, root: Path = ROOT) -> list[Path]:
    """Return the checkout's tracked files with this suffix, without data and generated files."""
    command = ["git", "-C", str(root), "ls-files", f"*{suffix}"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")
    paths = [root / name for name in names if name]
    skipped = {"data", "recordings", "generated"}
    return [path for path in paths if path.is_file() and not skipped & set(path.parts)]


def python_prose(source: str) -> str:
    """Docstrings and comments of a Python module, one after the other."""
    texts = [
        node.value.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    texts += [token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT]
    return "\n".join(texts)


def markdown_prose(source: str) -> str:
    """A Markdown document without its code blocks."""
    return re.sub(r"```.*?```", "", source, flags=re.DOTALL)


def assigned_names(source: str) -> Iterator[str]:
    """Names that a Python module assigns: variables, parameters, and annotated attributes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def is_empty(name: str) -> bool:
    """Return whether a name is a pronoun, a participle or a preposition."""
    return name.strip("_") in EMPTY_NAMES


def main() -> int:
    """Print the measures of each file below some folders, those with most to do last."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.contracts.prose",
        description="Measures the language of some folders, and names the files with most to do.",
        epilog="example: python -m tests.contracts.prose agent collector",
    )
    parser.add_argument("folders", nargs="*", type=Path, help="all, if none is given")
    folders = [folder.resolve() for folder in parser.parse_args().folders] or [ROOT]
    files = [
        path
        for suffix in (".py", ".md")
        for path in tracked_files(suffix)
        if any(path.is_relative_to(folder) for folder in folders)
    ]
    worst: Counter[str] = Counter()
    texts = {}
    for path in files:
        source = path.read_text(encoding="utf-8")
        is_python = path.suffix == ".py"
        texts[path] = python_prose(source) if is_python else markdown_prose(source)
        counts = measure(iter([texts[path]])).marks
        names = sum(map(is_empty, assigned_names(source))) if is_python else 0
        worst[str(path.relative_to(ROOT))] = names + sum(counts.values()) - counts["of"]
    prose = measure(iter(texts.values()))
    for mark in MARKS:
        print(f"{mark.name:22} {prose.rate(mark):6.2f} in 1,000 words (at most {mark.most})")
    for name, count in reversed(worst.most_common(10)):
        print(f"{count:4} {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
