"""The repository's language is the field's: plain sentences and meaningful names.

`python -m tests.contracts.prose FOLDER` lists the files with the most to correct. CONTRIBUTING.md
has the style, with examples.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contracts import prose
from tests.contracts.prose import ROOT, Mark, Prose


def _code() -> Iterator[str]:
    for path in prose.tracked_files(".py"):
        if path.relative_to(ROOT).parts[0] != "tests":
            yield prose.python_prose(path.read_text(encoding="utf-8"))


def _documents() -> Iterator[str]:
    for path in prose.tracked_files(".md"):
        if path.name != "CONTRIBUTING.md":  # it quotes hard sentences as examples
            yield prose.markdown_prose(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def code() -> Prose:
    return prose.measure(_code())


@pytest.fixture(scope="module")
def documents() -> Prose:
    return prose.measure(_documents())


@pytest.mark.parametrize("mark", prose.MARKS, ids=lambda mark: mark.name)
def test_docstrings_and_comments_are_plain(code: Prose, mark: Mark) -> None:
    assert code.rate(mark) <= mark.most


@pytest.mark.parametrize("mark", prose.MARKS, ids=lambda mark: mark.name)
def test_documents_are_plain(documents: Prose, mark: Mark) -> None:
    assert documents.rate(mark) <= mark.most


def test_names_say_what_a_value_is() -> None:
    paths = [
        path for path in prose.tracked_files(".py") if path.relative_to(ROOT).parts[0] != "tests"
    ]
    sources = [path.read_text(encoding="utf-8") for path in paths]
    names = [name for source in sources for name in prose.assigned_names(source)]
    empty = sum(map(prose.is_empty, names))
    assert empty <= prose.MOST_EMPTY_NAMES * len(names)


def test_hard_sentences_are_counted() -> None:
    hard = "Whether what is known of those that nobody saw goes on."
    measured = prose.measure(iter([hard, "A rank is lost."]))
    assert measured.words == 15
    assert measured.marks == {
        "pronoun for a person": 1,
        "clause as a noun": 1,
        "of": 1,
        "chained reference": 1,
        "idiom": 1,
    }


def test_prose_is_docstrings_and_comments_alone() -> None:
    source = """
def first(found: int) -> str:
    'Text.'
    each = "code"  # comment
    return each
"""
    assert prose.python_prose(source).split() == ["Text.", "comment"]
    assert list(filter(prose.is_empty, prose.assigned_names(source))) == ["found", "each"]
    assert prose.markdown_prose("a\n```\ncode\n```\nb").split() == ["a", "b"]
