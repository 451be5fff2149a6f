"""Sentence parts that several modules print: ranks as text, and hints for a wrong word."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable, Iterator

SHOWN_RANKS = 8
"""Rank ranges that a line names before it only counts the rest."""
_CLOSE = 0.55
"""Least similarity for suggesting a known word, from 0 to 1, as `difflib` measures it."""

_FILE_PROBLEMS = {
    errno.ENOENT: "no such file",
    errno.EISDIR: "it is a folder",
    errno.ELOOP: "it is a link",
    errno.ENOTDIR: "part of its path is a file",
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.ENOSPC: "no space left",
    errno.EROFS: "the file system is read-only",
}


def file_problem(error: OSError | ValueError) -> str:
    """Return why a file cannot be read or written, in words, without its number and name."""
    if isinstance(error, UnicodeError):
        return "it is not UTF-8 text"
    if isinstance(error, ValueError):
        return str(error)
    return _FILE_PROBLEMS.get(error.errno or 0) or (error.strerror or str(error)).lower()


def closest_hint(word: str, choices: Iterable[str], *, list_known: bool = True) -> str:
    """Return a suggestion in place of an unknown word.

    `did you mean 'forward'?` if a known word is close; else `known are ...` with all words,
    or nothing without `list_known`.
    """
    words = list(choices)
    close = difflib.get_close_matches(word, words, n=1, cutoff=_CLOSE)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known are {', '.join(words)}" if list_known and words else ""


def ranks_text(ranks: Iterable[int], most: int = SHOWN_RANKS) -> str:
    """Return ranks with the word before them: `rank 3`, `ranks 2-5, 8`, `no ranks`."""
    numbers = sorted(set(map(int, ranks)))
    if not numbers:
        return "no ranks"
    return f"rank{'s' if len(numbers) > 1 else ''} {numbers_text(numbers, most)}"


def one_of_text(ranks: Iterable[int]) -> str:
    """Return one rank among these: `rank 3` if it is the only one, else `one of ranks 2-5`."""
    numbers = {*ranks}
    return f"{'one of ' if len(numbers) > 1 else ''}{ranks_text(numbers)}"


def do_text(ranks: Iterable[int]) -> str:
    """Return the ranks with their verb, as part of a sentence: `rank 3 does`, `ranks 2-5 do`."""
    numbers = {*ranks}
    return f"{ranks_text(numbers)} {'does' if len(numbers) == 1 else 'do'}"


def numbers_text(numbers: Iterable[int], most: int = SHOWN_RANKS) -> str:
    """Return sorted numbers, with runs as ranges: `2-5, 8`.

    Beyond `most` ranges it ends with the total number: `0, 2, ... (64 in all)`.
    """
    ordered = sorted(set(map(int, numbers)))
    ranges = list(_ranges(ordered))
    shown = ", ".join(ranges[:most])
    return shown if len(ranges) <= most else f"{shown}, ... ({len(ordered)} in all)"


def _ranges(ordered: list[int]) -> Iterator[str]:
    """2 3 4 7 -> "2-4", "7"; a pair is a range too."""
    start = 0
    for index, number in enumerate(ordered):
        if index + 1 == len(ordered) or ordered[index + 1] != number + 1:
            first = ordered[start]
            yield str(first) if first == number else f"{first}-{number}"
            start = index + 1
