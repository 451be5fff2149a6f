"""Private words do not come back: code, screens and documents use those of the field.

To add a word, add a pattern with the word to use instead. What a pattern must leave alone (a quoted
message of another program, say) goes into `ALLOWED` with the file it stands in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUFFIXES = {".py", ".md", ".toml", ".js", ".html"}
CLEAN = (
    "agent",
    "alerts",
    "collector",
    "dashboards",
    "runbooks",
    "training",
    "tests",
    "README.md",
    "CONTRIBUTING.md",
)
"""Folders and files that are free of private words."""
INSTEAD = {
    r"(is|was|are|were|be|been) (told|heard)": "reports, received",
    r"tells of": "reports",
    r"told": "reported",
    r"heard": "received, last seen",
    r"stand(s|ing)? still": "makes no progress, stalled",
    r"held against": "compared with",
    r"no good": "invalid",
    r"lets? go": "releases",
    r"strikes|struck": "triggers",
    r"mended": "fixed",
    r"set aside": "quarantined",
    r"blind|blindness": "telemetry missing",
    r"own (time|work)": "self time",
    r"troubled?": "anomaly, fault",
    r"judg(e|es|ed|ing)": "evaluate",
    r"anatomy": "step-time breakdown",
    r"timetable": "microbatch timeline",
    r"ledger": "step history",
    r"waited_for|wait_for_others": "last arriver, arrival skew",
    r"pack_seconds|pack-seconds": "flush",
    r"odd (one|rank|ranks|node|nodes)": "anomalous",
    r"own past|its past": "baseline",
}
"""Pattern of a private word, to be found between word boundaries, and the word of the field."""
ALLOWED: frozenset[tuple[str, str]] = frozenset()
"""(file, line) pairs in which a pattern is meant literally."""


def texts() -> Iterator[Path]:
    """Every text file below `CLEAN`."""
    for name in CLEAN:
        place = ROOT / name
        assert place.exists(), f"{name} has moved: name its new place in CLEAN"
        found = [place] if place.is_file() else sorted(place.rglob("*"))
        yield from (path for path in found if path != Path(__file__))


@pytest.mark.parametrize("pattern", INSTEAD)
def test_a_private_word_does_not_come_back(pattern: str) -> None:
    word = re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])", re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts()
        if path.suffix in SUFFIXES and path.is_file() and "__pycache__" not in path.parts
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if word.search(line) and (path.name, line.strip()) not in ALLOWED
    ]
    assert not found, f"write {INSTEAD[pattern]!r} instead:\n" + "\n".join(found)


def test_the_patterns_find_what_they_are_for() -> None:
    for pattern, sentence in (
        (r"(is|was|are|were|be|been) (told|heard)", "nothing was heard of it"),
        (r"stand(s|ing)? still", "the job stands still"),
        (r"own (time|work)", "its own work"),
    ):
        assert pattern in INSTEAD and re.search(rf"(?<![\w-])(?:{pattern})(?![\w-])", sentence)
