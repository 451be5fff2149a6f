"""Every command that a README shows exists, with the options it is shown with."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

import pytest

from stepwatch.cli.main import VERBS, load_verb
from stepwatch.signals.arguments import Parser

ROOT = Path(__file__).parents[2]
SKIPPED = {".venv", ".git", "node_modules"}


def shown_commands() -> list[tuple[str, str]]:
    """(file, command) of every `$ ` line in a console block of a Markdown file."""
    found: list[tuple[str, str]] = []
    for path in sorted(ROOT.rglob("*.md")):
        if SKIPPED & set(path.relative_to(ROOT).parts):
            continue
        for block in re.findall(r"```console\n(.*?)```", path.read_text(), re.DOTALL):
            joined = block.replace("\\\n", " ")
            lines = [line[2:] for line in joined.splitlines() if line.startswith("$ ")]
            found.extend((str(path.relative_to(ROOT)), line) for line in lines)
    return found


def make_targets() -> set[str]:
    """Targets that the Makefile lists."""
    return set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize(("file", "command"), shown_commands())
def test_the_command_exists_with_its_options(file: str, command: str) -> None:
    words = shlex.split(command, comments=True)
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    if words[0] == "make":
        targets = [word for word in words[1:] if "=" not in word]
        assert set(targets) <= make_targets(), file
    elif words[0] == "stepwatch":
        assert words[1] in VERBS, file
        verb = load_verb(words[1])
        parser = Parser(prog=words[1], allow_abbrev=False)
        verb.add_arguments(parser)
        end = next((at for at, word in enumerate(words) if word in ("|", ">", "&")), len(words))
        assert isinstance(parser.parse_args(words[2:end]), argparse.Namespace)


def test_there_are_commands_to_check() -> None:
    files = {file for file, _ in shown_commands()}
    assert {"README.md", "agent/README.md", "collector/README.md", "tests/README.md"} <= files


def test_the_first_command_of_the_readme_comes_early() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert next(at for at, line in enumerate(lines, 1) if line.startswith("$ ")) <= 20
