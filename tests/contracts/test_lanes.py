"""`make test` and `make test-long` select each test once, and each behaviour has a fast test."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
LANES = ("long", "matrix")
LONG_LANE = "long and not matrix"


class LongMark(NamedTuple):
    """One `pytest.mark.long(...)`: its place, and the fast tests that it names."""

    place: str
    names: tuple[str, ...]


def lane_mark(node: ast.expr) -> str | None:
    """Return the lane of an expression that is `pytest.mark.LANE` or a call of it, else None."""
    mark = node.func if isinstance(node, ast.Call) else node
    text = ast.unparse(mark)
    return next((lane for lane in LANES if text == f"pytest.mark.{lane}"), None)


def module_marks(tree: ast.Module) -> list[ast.expr]:
    """Return the marks of a whole module: the value of `pytestmark`, as a list."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            return node.value.elts if isinstance(node.value, ast.List) else [node.value]
    return []


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def long_marks() -> Iterator[LongMark]:
    """Every long mark of the tests."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if "mark.long" not in path.read_text(encoding="utf-8"):
            continue
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Attribute) and ast.unparse(node) == "pytest.mark.long":
                yield LongMark(f"{path.relative_to(ROOT)}:{node.lineno}", ())
            if isinstance(node, ast.Call) and lane_mark(node) == "long":
                names = (ast.literal_eval(argument) for argument in node.args)
                yield LongMark(f"{path.relative_to(ROOT)}:{node.lineno}", tuple(names))


def problem(name: str) -> str | None:
    """Return why `path::test` is not a test of the fast lane, None where it is one."""
    path, _, function = name.partition("::")
    if not (ROOT / path).is_file():
        return f"there is no {path}"
    tree = parsed(ROOT / path)
    if any(map(lane_mark, module_marks(tree))):
        return f"{path} is not a file of the fast lane"
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            slow = any(map(lane_mark, node.decorator_list))
            return f"{name} is not a test of the fast lane" if slow else None
    return f"there is no {name}"


def test_each_long_test_names_fast_tests_of_the_same_behaviour() -> None:
    marks = list(long_marks())
    named_marks = {mark.place: mark.names for mark in marks if mark.names}
    assert {mark.place for mark in marks} == set(named_marks), "a mark without a name"
    problems = [
        f"{place}: {text}"
        for place, names in named_marks.items()
        for name in names
        if (text := problem(name)) is not None
    ]
    assert problems == []


def make_files(variable: str) -> set[str]:
    """Return the files that a variable of the Makefile lists below `tests/`."""
    match = re.search(rf"^{variable} := \$\(addprefix tests/,((?:.|\\\n)*?)\)$", MAKEFILE, re.M)
    assert match is not None
    return {f"tests/{name}" for name in match[1].replace("\\\n", " ").split()}


def test_files_with_an_arrangement_of_their_own_are_long() -> None:
    listed = make_files("TIMED") | make_files("ASLEEP")
    assert len(listed) > 5 and not make_files("TIMED") & make_files("ASLEEP")
    assert [name for name in listed if "pytest.mark.long(" not in (ROOT / name).read_text()] == []


def test_the_targets_select_opposite_lanes() -> None:
    recipes = MAKEFILE[MAKEFILE.index("\ntest:") : MAKEFILE.index("\nelse\n")]
    fast, long = recipes.split("\ntest-long:")
    assert fast.count("-m pytest") == 1 and ' -m "' not in fast
    assert long.count("-m pytest") == long.count(f'-m pytest -m "{LONG_LANE}"') == 3


def selected(*words: str) -> list[str]:
    """Return the node IDs that pytest selects with some options."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *words]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in ran.stdout.splitlines() if "::" in line and "SKIPPED" not in line]


@pytest.mark.long("tests/contracts/test_lanes.py::test_the_targets_select_opposite_lanes")
def test_each_test_is_in_one_lane() -> None:
    fast, long = selected(), selected("-m", LONG_LANE)
    assert len(fast) == len(set(fast)) and len(long) == len(set(long))
    assert not set(fast) & set(long)
    assert set(fast) | set(long) == set(selected("-m", "not matrix"))
    named_tests = {name for mark in long_marks() for name in mark.names}
    assert named_tests <= {name.partition("[")[0] for name in fast}
