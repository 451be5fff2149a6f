"""YAML as plain values with their line numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import yaml

Place = tuple[str | int, ...]
"""Keys and list positions on the path to a value."""


class Document(NamedTuple):
    """A document's value, and the line (from 1) of each place in it."""

    value: Any
    lines: dict[Place, int]

    def line_of(self, place: Place) -> int:
        """Return the line of `place`, or of the nearest existing parent."""
        while place not in self.lines:
            place = place[:-1]
        return self.lines[place]


class YamlError(Exception):
    """The text is not YAML document with plain values; `line` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def read_yaml(text: str) -> Document:
    """Read one document with maps, lists and scalars; decimal numbers stay text, exactly.

    Raises:
        YamlError: it is not YAML, repeats a key, uses an alias or a tag, or holds two documents.
    """
    try:
        _refuse_aliases(text)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = error.problem or error.context or "is not YAML"
        raise YamlError(_line(mark), message) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise YamlError(1, "is not YAML, or is nested too deeply") from error
    lines: dict[Place, int] = {(): 1}
    return Document(None if root is None else _value(root, (), lines), lines)


def _refuse_aliases(text: str) -> None:
    """Refuse aliases: a few lines of nested aliases may expand to gigabytes."""
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise YamlError(_line(event.start_mark), "an alias (*name); write the value out")


def _value(node: yaml.Node, place: Place, lines: dict[Place, int]) -> Any:
    lines[place] = _line(node.start_mark)
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, (*place, index), lines) for index, item in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        mapping: dict[str, Any] = {}
        for key, item in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value in mapping:
                raise YamlError(_line(key.start_mark), "a key that is repeated, or is not text")
            mapping[key.value] = _value(item, (*place, key.value), lines)
            lines[(*place, key.value)] = _line(key.start_mark)
        return mapping
    return _scalar(node)


def _scalar(node: yaml.Node) -> Any:
    kind = node.tag.removeprefix("tag:yaml.org,2002:")
    if kind == "null":
        return None
    if kind == "bool":
        return node.value.lower() in ("true", "yes", "on")
    if kind in ("str", "int", "float", "timestamp"):
        return node.value
    raise YamlError(_line(node.start_mark), f"the tag {node.tag}; write a plain value")


def _line(mark: Any) -> int:
    """Return the line number from 1, as editors count."""
    return 1 if mark is None else mark.line + 1
