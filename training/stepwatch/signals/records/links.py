"""A link to an experiment tracker's run, in the texts of LINK records.

`tracker`, `run` and `url` with tabs between them, cut into pieces that fit a record. A record's
`value` is the number of its piece, from 0; a piece 0 begins a link.
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


def link_texts(tracker: str, run: str, url: str) -> list[str]:
    """The texts of a link's records, at most `MOST_PIECES`: the end of a longer one is lost."""
    text = "\t".join(part.replace("\t", " ") for part in (tracker, run, url))
    # A character outside ASCII takes up to four bytes.
    size = PIECE_BYTES if text.isascii() else PIECE_BYTES // 4
    return [text[at : at + size] for at in range(0, len(text), size)][:MOST_PIECES]


def read_link(texts: Iterable[str]) -> Link:
    """The link of the texts of its records, in order; what is missing is empty."""
    parts = [*"".join(texts).split("\t"), "", "", ""]
    return Link(parts[0], parts[1], parts[2])
