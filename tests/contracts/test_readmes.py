"""Documents name only existing commands, options, files and headings."""

from __future__ import annotations

import argparse
import ast
import re
import shlex
import textwrap
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from stepwatch.cli.main import VERBS, load_verb
from stepwatch.signals.arguments import Parser

ROOT = Path(__file__).parents[2]
SKIPPED = {".venv", ".git", "node_modules"}
LONGEST_ROOT_README = 200
"""Lines: a newcomer reads it in five minutes. Tables of results go to `tests/measured`."""
FENCED = re.compile(r"^( *)(`{3,})([a-z]*)\n(.*?)^\1\2 *$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")
INLINE_MAKE = re.compile(r"`make ([a-z-]+)[^`]*`")
INLINE_VERB = re.compile(r"`stepwatch ([a-z]+)[^`]*`")
INLINE_MODULE = re.compile(r"`(?:\.venv/bin/)?python -m ([a-z_.]+)[^`]*`")


def documents() -> list[Path]:
    """Every Markdown file of the repository."""
    paths = sorted(ROOT.rglob("*.md"))
    return [
        path
        for path in paths
        if not any(
            part in SKIPPED or part.startswith(".venv") for part in path.relative_to(ROOT).parts
        )
    ]


DOCUMENTS = {str(path.relative_to(ROOT)): path.read_text() for path in documents()}


def blocks(text: str, *languages: str) -> list[str]:
    """Bodies of the fenced blocks in one of `languages`, without the indent of their list."""
    return [
        textwrap.dedent(body)
        for _, _, language, body in FENCED.findall(text)
        if language in languages
    ]


def prose(text: str) -> str:
    """A document without its fenced blocks."""
    return FENCED.sub("", text)


def anchors(text: str) -> set[str]:
    """Anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", prose(text), re.MULTILINE)
    words = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    slugs = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in words]
    return {
        slug if not (repeats := slugs[:index].count(slug)) else f"{slug}-{repeats}"
        for index, slug in enumerate(slugs)
    }


def shown_commands() -> list[tuple[str, str]]:
    """(file, command) of every `$ ` line in a console block of a Markdown file."""
    commands: list[tuple[str, str]] = []
    for file, text in DOCUMENTS.items():
        for block in blocks(text, "console"):
            joined = block.replace("\\\n", " ")
            lines = [line[2:] for line in joined.splitlines() if line.startswith("$ ")]
            commands.extend((file, line) for line in lines)
    return commands


def make_targets() -> set[str]:
    """Targets that the Makefile lists."""
    return set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))


def extras() -> set[str]:
    """Extras of the package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return set(project["optional-dependencies"])


def wrong_links(file: str, text: str) -> Iterator[str]:
    """Yield the relative links of a document without a target."""
    for target in LINK.findall(prose(text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        place = (ROOT / file).parent / path
        if path and not place.exists():
            yield f"{target}: no such file"
        elif anchor and anchor not in anchors(place.read_text() if path else text):
            yield f"{target}: no such heading"


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
        end = next(
            (index for index, word in enumerate(words) if word in ("|", ">", "&")), len(words)
        )
        assert isinstance(parser.parse_args(words[2:end]), argparse.Namespace)
    elif words[0].endswith("python") and words[1] == "-m" and words[2].startswith("tests."):
        assert find_spec(words[2]), file


@pytest.mark.parametrize("file", DOCUMENTS)
def test_what_a_sentence_names_is_there(file: str) -> None:
    text = prose(DOCUMENTS[file])
    assert set(INLINE_MAKE.findall(text)) <= make_targets()
    assert set(INLINE_VERB.findall(text)) <= {*VERBS, "help"}
    modules = {module for module in INLINE_MODULE.findall(text) if module.split(".")[0] == "tests"}
    assert {module for module in modules if find_spec(module) is None} == set()
    extra_lists = re.findall(r"stepwatch\[([\w,-]+)\]", DOCUMENTS[file])
    assert {extra for extra_list in extra_lists for extra in extra_list.split(",")} <= extras()


@pytest.mark.parametrize("file", DOCUMENTS)
def test_links_lead_to_files_and_headings(file: str) -> None:
    assert list(wrong_links(file, DOCUMENTS[file])) == []


@pytest.mark.parametrize("file", DOCUMENTS)
def test_no_fence_inside_a_block_ends_it(file: str) -> None:
    for indent, fence, _, body in FENCED.findall(DOCUMENTS[file]):
        ends = rf"^(?!{' ' * len(indent)}    ) *{fence}`* *$"
        assert not re.search(ends, body, re.MULTILINE), "open the outer block with one ` more"


@pytest.mark.parametrize("file", DOCUMENTS)
def test_blocks_of_python_are_python(file: str) -> None:
    for block in blocks(DOCUMENTS[file], "python"):
        ast.parse(block)


def test_a_wrong_link_is_found() -> None:
    text = "[a](agent/README.md) [b](agent/NONE.md) [c](#here) [d](#there)\n\n## Here\n"
    assert list(wrong_links("README.md", text)) == [
        "agent/NONE.md: no such file",
        "#there: no such heading",
    ]


def test_there_are_commands_to_check() -> None:
    files = {file for file, _ in shown_commands()}
    assert {"README.md", "agent/README.md", "collector/README.md", "tests/README.md"} <= files
    measured = {file for file in DOCUMENTS if file.startswith("tests/measured/")}
    assert measured - {"tests/measured/README.md"} <= files


def test_the_first_command_of_the_readme_comes_early() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert next(number for number, line in enumerate(lines, 1) if line.startswith("$ ")) <= 20


def test_the_root_readme_is_short() -> None:
    lines = DOCUMENTS["README.md"].splitlines()
    assert len(lines) <= LONGEST_ROOT_README, "move details to the document of their reader"


def test_each_file_of_results_is_named_where_results_are_shown() -> None:
    shown = "".join(text for file, text in DOCUMENTS.items() if file.startswith("tests/measured/"))
    results = {path.name for path in (ROOT / "tests/bench/results").iterdir()}
    assert results and {name for name in results if name not in shown} == set()


def test_each_page_of_results_is_in_their_index() -> None:
    pages = {path.name for path in (ROOT / "tests/measured").glob("*.md")} - {"README.md"}
    assert pages == set(re.findall(r"\(([a-z]+\.md)\) \|", DOCUMENTS["tests/measured/README.md"]))
