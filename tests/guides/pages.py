"""The scripts and commands that a guide shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from stepwatch.cli.main import load_verb
from stepwatch.signals.arguments import Parser

ROOT = Path(__file__).parents[2]
TRAINERS = ROOT / "training" / "guides"


def blocks(page: Path, language: str) -> list[str]:
    """Contents of the fenced blocks in `language`, in the order of the page."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def script(page: Path) -> str:
    """Return the complete script of a page: the block that begins with `# train.py`."""
    (program,) = [block for block in blocks(page, "python") if block.startswith("# train.py\n")]
    return program


def commands(page: Path) -> list[str]:
    """Return the commands that a reader types, without the prompt."""
    lines = "".join(blocks(page, "console")).splitlines()
    return [line[2:] for line in lines if line.startswith("$ ")]


def parse_options(words: list[str]) -> Any:
    """The options that a verb makes of `words`."""
    parser = Parser(prog=words[0], allow_abbrev=False)
    load_verb(words[0]).add_arguments(parser)
    return parser.parse_args(words[1:])
