"""Descriptions of a `TypedDict`'s fields: the docstrings below them, also those of its bases."""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from typing import Any

from typing_extensions import is_typeddict

from stepwatch.collector.web import schema


def with_field_docs(definitions: dict[str, Any]) -> dict[str, Any]:
    """Add each field's description to the JSON schemas of the schema's classes, by class name.

    The schemas change in place. A field that has a description keeps it.
    """
    classes = kinds()
    for name, definition in definitions.items():
        docs = field_docs(classes[name])
        for field, field_schema in definition["properties"].items():
            field_schema.pop("title", None)
            if field in docs:
                field_schema.setdefault("description", docs[field])
    return definitions


def field_docs(kind: Any) -> dict[str, str]:
    """Return a `TypedDict`'s docstrings by field."""
    docs: dict[str, str] = {}
    for base in getattr(kind, "__orig_bases__", ()):
        if is_typeddict(base):
            docs |= field_docs(base)
    return docs | _docs_in(kind.__module__).get(kind.__name__, {})


def kinds() -> dict[str, Any]:
    """Return the schema's `TypedDict` classes by name."""
    modules = [
        sys.modules[name] for name in sorted(sys.modules) if name.startswith(schema.__name__)
    ]
    return {
        name: kind
        for module in modules
        for name, kind in vars(module).items()
        if is_typeddict(kind) and kind.__module__ == module.__name__
    }


@cache
def _docs_in(module: str) -> dict[str, dict[str, str]]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: _docs_of(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _docs_of(node: ast.ClassDef) -> dict[str, str]:
    docs = {}
    for field, text in zip(node.body, node.body[1:], strict=False):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                value=ast.Constant(value=str(words))
            ):
                docs[name] = " ".join(words.split())
    return docs
