"""Imports form no circle, wherever in a file they are written."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("agent", "alerts", "collector", "dashboards", "runbooks", "training")


def modules() -> dict[str, Path]:
    """Each module of `stepwatch` by its dotted name; a package by its own."""
    paths = {}
    for folder in FOLDERS:
        for path in (ROOT / folder / "stepwatch").rglob("*.py"):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return paths


def imports_of(name: str, path: Path, modules_by_name: dict[str, Path]) -> set[str]:
    """Modules of `modules_by_name` that `name` imports, also for types or in a function."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    imports: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imports |= {_module(alias.name, modules_by_name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*(parents if node.level else []), *filter(None, [node.module])])
            imports |= {_module(f"{base}.{alias.name}", modules_by_name) for alias in node.names}
    return imports - {name, ""}


def _module(dotted: str, modules_by_name: dict[str, Path]) -> str:
    """Return the module that `dotted` is or belongs to; empty if there is none."""
    parent = dotted.rpartition(".")[0]
    return dotted if dotted in modules_by_name else parent if parent in modules_by_name else ""


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that all reach each other, each group in order."""
    reach = {name: _reachable(name, graph) for name in graph}
    groups = {
        tuple(sorted(peer for peer in reach[name] if name in reach[peer]))
        for name in graph
        if name in reach[name]
    }
    return sorted(map(list, groups))


def _reachable(name: str, graph: dict[str, set[str]]) -> set[str]:
    visited: set[str] = set()
    waiting = list(graph[name])
    while waiting:
        module = waiting.pop()
        if module not in visited:
            visited.add(module)
            waiting += graph[module]
    return visited


def test_imports_form_no_circle() -> None:
    modules_by_name = modules()
    graph = {
        name: imports_of(name, path, modules_by_name) for name, path in modules_by_name.items()
    }
    assert len(graph) > 300
    assert circles(graph) == []


def test_a_circle_is_seen_in_a_function_and_in_an_import_for_types(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def late() -> None:\n    from stepwatch.a import b\n")
    (tmp_path / "b.py").write_text("if TYPE_CHECKING:\n    from .a import late\n")
    modules_by_name = {"stepwatch.a.a": tmp_path / "a.py", "stepwatch.a.b": tmp_path / "b.py"}
    modules_by_name["stepwatch.a"] = tmp_path / "none.py"
    graph = {
        name: imports_of(name, modules_by_name[name], modules_by_name)
        for name in list(modules_by_name)[:2]
    }
    assert circles(graph) == [["stepwatch.a.a", "stepwatch.a.b"]]
