"""Texts longer than a record, in the pieces of LINK and FACT records.

A link is the `tracker`, `run` and `url` of a run of an experiment tracker; a fact of a run is its
`name` and its `value`. Tabs stand between the parts, and the whole is cut into pieces that fit a
record. A record's `value` is the number of its piece, from 0; a piece 0 begins anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

PIECE_BYTES = 56
"""Bytes of a LIFECYCLE record's text."""
MOST_PIECES = 8


class Link(NamedTuple):
    """A run of an experiment tracker; `url` is empty where it is not known."""

    tracker: str
    run: str
    url: str


class Fact(NamedTuple):
    """Something that a run is made of: its configuration, code, data or environment.

    `name` begins with one of these and a dot, as `config.learning_rate`.
    """

    name: str
    value: str


def piece_texts(parts: Iterable[str]) -> list[str]:
    """The texts of a link's or a fact's records, at most `MOST_PIECES`: the end of a longer one is
    lost."""
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
    """The link of the texts of its records, in order; what is missing is empty."""
    parts = [*"".join(texts).split("\t"), "", "", ""]
    return Link(parts[0], parts[1], parts[2])


def read_fact(texts: Iterable[str]) -> Fact:
    """The fact of the texts of its records, in order; what is missing is empty."""
    name, _, value = "".join(texts).partition("\t")
    return Fact(name, value)
