"""The hooks import one way: a part can be read without what is built on it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOOKS = "stepwatch.hooks"


def modules() -> dict[str, Path]:
    """Every module below `stepwatch`, by its dotted name."""
    paths_by_module = {}
    for path in sorted(ROOT.glob("*/stepwatch/**/*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts[1:]
        paths_by_module[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return paths_by_module


def imported(name: str, path: Path) -> Iterator[str]:
    """Names that a module imports anywhere: at its top, in functions, for the type checker."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                yield f"{source}.{alias.name}"


def import_graph(paths_by_module: dict[str, Path]) -> dict[str, set[str]]:
    """For each module the modules that it imports; `from a import b` is `a.b` if that is one."""
    graph: dict[str, set[str]] = {}
    for name, path in paths_by_module.items():
        targets = (
            full if full in paths_by_module else full.rpartition(".")[0]
            for full in imported(name, path)
        )
        graph[name] = {target for target in targets if target in paths_by_module}
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Sets of modules that import each other, each set once: Tarjan's algorithm."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    cycles: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for target in sorted(graph[name]):
            if target not in order:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], order[target])
        if low[name] == order[name]:
            position = stack.index(name)
            circle = stack[position:]
            del stack[position:]
            if len(circle) > 1 or name in graph[name]:
                cycles.append(sorted(circle))

    for name in graph:
        if name not in order:
            visit(name)
    return cycles


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    """Who imports whom in the whole of stepwatch."""
    return import_graph(modules())


def test_a_circle_is_found_through_any_kind_of_import(tmp_path: Path) -> None:
    texts = {
        "a.__init__": "from .b import thing",
        "a.b": "def f():\n    from . import c",
        "a.c": "if TYPE_CHECKING:\n    import a.d",
        "a.d": "from a.b import other\nimport sys",
        "a.e": "from .d import more",
    }
    paths_by_module = {}
    for name, text in texts.items():
        path = tmp_path / (name.replace(".", "/") + ".py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        paths_by_module[name.removesuffix(".__init__")] = path
    assert circles(import_graph(paths_by_module)) == [["a.b", "a.c", "a.d"]]


@pytest.mark.parametrize("part", ["stepwatch.hooks", "stepwatch.faults", "stepwatch.signals"])
def test_no_modules_import_each_other(graph: dict[str, set[str]], part: str) -> None:
    inside = {
        name: {target for target in targets if target.startswith(part)}
        for name, targets in graph.items()
        if name.startswith(part)
    }
    assert inside
    assert circles(inside) == []


def test_only_what_wraps_a_whole_framework_holds_a_watch(graph: dict[str, set[str]]) -> None:
    holders = {
        name
        for name, targets in graph.items()
        if name.startswith(HOOKS) and targets & {HOOKS, f"{HOOKS}.watch"}
    }
    above = {HOOKS, f"{HOOKS}.auto.router", f"{HOOKS}.auto.following"}
    assert {name for name in holders if not name.startswith(f"{HOOKS}.adapters.")} == above


def test_the_recorder_knows_no_part_that_records(graph: dict[str, set[str]]) -> None:
    below = {f"{HOOKS}.recorder", f"{HOOKS}.core", f"{HOOKS}.guard", "stepwatch.signals"}
    visited: set[str] = set()
    waiting = [f"{HOOKS}.recorder.recorder"]
    while waiting:
        name = waiting.pop()
        if name not in visited:
            visited.add(name)
            waiting.extend(graph[name])
    assert {name for name in visited if not name.startswith(tuple(below))} == set()
