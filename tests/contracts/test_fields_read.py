"""Every shipped field is read, by the collector or for an agent's /metrics.

The source shows which fields are read: the field's name occurs as a word of its own (or in an
f-string) in a package that does not make records, other than as a key that is assigned. A name that
several kinds share, or that an f-string makes, counts only in modules about its kind, or next to
one. `unread_fields.toml` lists the exceptions with their reasons.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from stepwatch.signals.names import DEVICE_METRICS
from stepwatch.signals.records import BODIES, Kind

ROOT = Path(__file__).parents[2]
READERS = ("collector/stepwatch", "agent/stepwatch")
WRITERS = ("agent/stepwatch/agent/probes", "collector/stepwatch/cli/simulate")
"""Packages that write names and do not read them, except in the `gauges` of a probe."""
SHARED = Counter(name for body in BODIES.values() for name, _ in body)
ANY = "[a-z0-9_]+"


class Module(NamedTuple):
    """A module that may read: its words, patterns of words that it makes, kinds that it names, and
    the modules that it imports."""

    words: frozenset[str]
    patterns: tuple[str, ...]
    kinds: frozenset[str]
    imports: frozenset[str]

    def reads(self, name: str) -> bool:
        """Return whether the module reads a field of this name."""
        return name in self.words or any(re.fullmatch(pattern, name) for pattern in self.patterns)


def put_under(tree: ast.AST) -> Iterator[ast.AST]:
    """Words under which a value is put: of `row["x"] = ...`, and of keys of a mapping."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            yield from (key for key in node.keys if key is not None)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            yield from ast.walk(node.slice)


def pattern_of(text: ast.JoinedStr) -> str:
    """The words that an f-string may make; empty where it could make any."""
    parts = [
        re.escape(str(part.value)) if isinstance(part, ast.Constant) else ANY
        for part in text.values
    ]
    return "".join(parts) if any(re.search("[a-z]{2}", p) for p in parts if p != ANY) else ""


def imports_of(tree: ast.AST, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*above, *([node.module] if node.module else [])])
            base = base if node.level else node.module or ""
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def kinds_of(tree: ast.AST) -> frozenset[str]:
    return frozenset(
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "Kind"
    )


def module_of(tree: ast.Module, package: str) -> Module:
    put = {id(node) for node in put_under(tree)}
    nodes = [node for node in ast.walk(tree) if id(node) not in put]
    texts = [pattern_of(node) for node in nodes if isinstance(node, ast.JoinedStr)]
    return Module(
        frozenset(
            node.value
            for node in nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ),
        tuple(text for text in texts if text),
        kinds_of(tree),
        frozenset(imports_of(tree, package)),
    )


def gauges_of(tree: ast.Module) -> ast.Module:
    """Return the exports of a probe's module: its constants, and its `gauges` functions."""
    exports: list[ast.stmt] = [node for node in tree.body if isinstance(node, ast.Assign)]
    exports += [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "gauges"
    ]
    exported = [node for node in exports if isinstance(node, ast.FunctionDef)]
    return ast.Module(exports if exported else [], [])


@cache
def modules() -> dict[str, Module]:
    """Every module that may read records, by its name."""
    by_name = {}
    for part in READERS:
        for path in sorted((ROOT / part).rglob("*.py")):
            place = path.relative_to(ROOT).as_posix()
            source_tree = ast.parse(path.read_text(encoding="utf-8"))
            tree = gauges_of(source_tree) if place.startswith(WRITERS) else source_tree
            words = place.removesuffix(".py").split("/")[1:]
            name = ".".join(words).removesuffix(".__init__")
            package = name if path.name == "__init__.py" else name.rpartition(".")[0]
            by_name[name] = module_of(tree, package)._replace(kinds=kinds_of(source_tree))
    return by_name


def folder(module: str) -> str:
    return module.rpartition(".")[0]


def modules_about(kind: Kind) -> set[str]:
    """Return the modules that name a kind, and their neighbours that name no kind: modules that
    they import, modules that import them, and imports of these from the same folder."""
    base = {name for name, module in modules().items() if kind.name in module.kinds}
    users = {name for name, module in modules().items() if module.imports & base}
    used = {name for module in base for name in modules()[module].imports if name in modules()}
    folders = {folder(module) for module in users} - {folder(module) for module in base}
    used |= {
        name
        for user in users
        for name in modules()[user].imports
        if name in modules() and folder(name) == folder(user) and folder(user) in folders
    }
    return base | {name for name in users | used if not modules()[name].kinds}


def exemptions() -> set[str]:
    text = Path(__file__).with_name("unread_fields.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)["field"]
    assert all(entry["because"] for entry in entries)
    return {name for entry in entries for name in entry["names"]}


def unread(kind: Kind, name: str) -> bool:
    if kind is Kind.DEVICE and name in DEVICE_METRICS:
        return False  # `agent.devices.exported` reads all of them
    if SHARED[name] == 1 and any(name in module.words for module in modules().values()):
        return False
    return not any(modules()[module].reads(name) for module in modules_about(kind))


@pytest.mark.parametrize("kind", list(Kind), ids=lambda kind: kind.name)
def test_every_field_that_is_shipped_is_read(kind: Kind) -> None:
    unread_fields = {f"{kind.name}.{name}" for name, _ in BODIES[kind] if unread(kind, name)}
    assert unread_fields <= exemptions(), (
        f"{sorted(unread_fields - exemptions())}: nothing reads them; remove them from the record, "
        "read them where a user wants them, or give the reason in "
        "tests/contracts/unread_fields.toml"
    )


def test_what_is_excused_is_there_and_not_read() -> None:
    shipped = {f"{kind.name}.{name}": (kind, name) for kind in Kind for name, _ in BODIES[kind]}
    assert exemptions() <= shipped.keys(), "fields that are no more need no excuse"
    read = {field_name for field_name in exemptions() if not unread(*shipped[field_name])}
    assert not read, f"{sorted(read)} are read now: take them off the list"


def test_what_counts_as_reading() -> None:
    code = """
def f(row, name):
    row["written"] = {"key": row["used"]}
    for each in ("listed", "other"):
        print(row[each], row[f"{name}_seconds"], row[f"{name}"])
    if row["kind"] == Kind.STEP:
        row["both"] = row["both"] + 1
"""
    module = module_of(ast.parse(code), "a.b")
    assert {"used", "listed", "other", "kind", "both"} <= module.words
    assert not {"written", "key"} & module.words
    assert module.patterns == (f"{ANY}_seconds",) and module.kinds == {"STEP"}
    assert module.reads("data_seconds") and not module.reads("data_ns")


def test_a_probe_reads_only_what_it_exports() -> None:
    code = "class P:\n    def read(self, row): return row['a']\n"
    assert not gauges_of(ast.parse(code)).body
    exports = gauges_of(ast.parse(code + "    def gauges(self, row): return row['b']\n"))
    assert module_of(exports, "p").words == {"b"}
