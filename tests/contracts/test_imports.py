"""Imports form no circle, wherever in a file they are written."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("agent", "alerts", "collector", "dashboards", "runbooks", "training")


def modules() -> dict[str, Path]:
    """Each module of `stepwatch` by its dotted name; a package by its own."""
    found = {}
    for folder in FOLDERS:
        for path in (ROOT / folder / "stepwatch").rglob("*.py"):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """Modules of `known` that `name` imports: at the top, for types only, or inside a function."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {_module(alias.name, known) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*(parents if node.level else []), *filter(None, [node.module])])
            found |= {_module(f"{base}.{alias.name}", known) for alias in node.names}
    return found - {name, ""}


def _module(dotted: str, known: dict[str, Path]) -> str:
    """The module that holds `dotted`, which is one itself or a name in one; empty if none."""
    parent = dotted.rpartition(".")[0]
    return dotted if dotted in known else parent if parent in known else ""


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules each of which reaches all others, the modules of a group in order."""
    reach = {name: _reachable(name, graph) for name in graph}
    groups = {
        tuple(sorted(other for other in reach[name] if name in reach[other]))
        for name in graph
        if name in reach[name]
    }
    return sorted(map(list, groups))


def _reachable(name: str, graph: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = list(graph[name])
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            waiting += graph[module]
    return seen


def test_imports_form_no_circle() -> None:
    known = modules()
    graph = {name: imported(name, path, known) for name, path in known.items()}
    assert len(graph) > 300
    assert circles(graph) == []


def test_a_circle_is_seen_in_a_function_and_in_an_import_for_types(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def late() -> None:\n    from stepwatch.a import b\n")
    (tmp_path / "b.py").write_text("if TYPE_CHECKING:\n    from .a import late\n")
    known = {"stepwatch.a.a": tmp_path / "a.py", "stepwatch.a.b": tmp_path / "b.py"}
    known["stepwatch.a"] = tmp_path / "none.py"
    graph = {name: imported(name, known[name], known) for name in list(known)[:2]}
    assert circles(graph) == [["stepwatch.a.a", "stepwatch.a.b"]]
