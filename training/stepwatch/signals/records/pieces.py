"""Texts longer than a record, in the pieces of LINK, FACT, CHECKPOINT_PATH and LOADED_PATH records.

A link is the `tracker`, `run` and `url` of an experiment tracker's run; a fact about a run is its
`name` and its `value`; a path has an empty part behind it. Tabs separate the parts, and the text is
cut into pieces that fit a record. A record's `value` is its piece's number, from 0; a piece 0
begins a new text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

PIECE_BYTES = 56
"""Bytes in a LIFECYCLE record's text."""
MOST_PIECES = 8


class Link(NamedTuple):
    """An experiment tracker's run; `url` is empty if it is unknown."""

    tracker: str
    run: str
    url: str


class Fact(NamedTuple):
    """One setting of a run: in its configuration, code, data or environment.

    `name` begins with one of these and a dot, as in `config.learning_rate`.
    """

    name: str
    value: str


def piece_texts(parts: Iterable[str]) -> list[str]:
    """Return the record texts for a link or a fact, at most `MOST_PIECES`.

    The end of a longer text is lost.
    """
    text = "\t".join(part.replace("\t", " ") for part in parts)
    if text.isascii():
        return [text[start : start + PIECE_BYTES] for start in range(0, len(text), PIECE_BYTES)][
            :MOST_PIECES
        ]
    pieces: list[str] = []
    begins = size = 0
    for position, character in enumerate(text):
        more = len(character.encode("utf-8", "replace"))
        if size + more > PIECE_BYTES:
            pieces.append(text[begins:position])
            begins, size = position, 0
            if len(pieces) == MOST_PIECES:
                return pieces
        size += more
    return [*pieces, text[begins:]]


def read_link(texts: Iterable[str]) -> Link:
    """Return the link in its records' texts, in order; missing parts are empty."""
    parts = [*"".join(texts).split("\t"), "", "", ""]
    return Link(parts[0], parts[1], parts[2])


def read_fact(texts: Iterable[str]) -> Fact:
    """Return the fact in its records' texts, in order; missing parts are empty."""
    name, _, value = "".join(texts).partition("\t")
    return Fact(name, value)


def read_path(texts: Iterable[str]) -> str:
    """Return the path in its records' texts, in order; empty until its last piece is there."""
    path, end, _ = "".join(texts).partition("\t")
    return path if end else ""
