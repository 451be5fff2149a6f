"""Generated files as the closure check reads them: rules, tests, queries and links.

A file may have been edited by hand into any shape. Mappings without the form of a rule or a query
are skipped here, since the comparison with a fresh build reports them anyway.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import yaml


@dataclass(frozen=True)
class Problem:
    """One mismatch: the file, the error and its fix."""

    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


@dataclass(frozen=True)
class Rule:
    """One alert rule in a rules file."""

    path: str
    name: str
    expr: str
    severity: str
    annotations: Mapping[str, str]


@dataclass(frozen=True)
class Recording:
    """One recording rule in a rules file: the series `name` and its expression."""

    path: str
    name: str
    expr: str


@dataclass(frozen=True)
class Test:
    """One question in a promtool test file, and whether it expects the alert to fire."""

    path: str
    name: str
    alert: str
    fires: bool
    series: tuple[str, ...]


@dataclass(frozen=True)
class Query:
    """One dashboard query, with its place and the legend for its series."""

    where: str
    expr: str
    legend: str


def unreadable(yaml_texts: Mapping[str, str], json_texts: Mapping[str, str]) -> Iterator[Problem]:
    """Yield a problem for each file that no parser accepts."""
    for path, text in yaml_texts.items():
        if _parse_yaml(text) is None:
            yield Problem(path, "is not YAML; run `stepwatch build`")
    for path, text in json_texts.items():
        if _parse_json(text) is None:
            yield Problem(path, "is not JSON; run `stepwatch build`")


def rules(texts: Mapping[str, str]) -> list[Rule]:
    """Return every alert rule in some rules files."""
    return [
        Rule(
            path,
            str(rule["alert"]),
            str(rule.get("expr", "")),
            str(_mapping(rule.get("labels")).get("severity", "")),
            {key: str(value) for key, value in _mapping(rule.get("annotations")).items()},
        )
        for path, text in texts.items()
        for rule in _holding(_parse_yaml(text), "alert")
    ]


def recordings(texts: Mapping[str, str]) -> list[Recording]:
    """Return every recording rule in some rules files, in file order."""
    return [
        Recording(path, str(rule["record"]), str(rule.get("expr", "")))
        for path, text in texts.items()
        for rule in _holding(_parse_yaml(text), "record")
    ]


def tests(texts: Mapping[str, str]) -> list[Test]:
    """Return every question in some promtool test files."""
    return [
        Test(
            path,
            str(test.get("name", "")),
            str(question.get("alertname", "")),
            bool(question.get("exp_alerts")),
            tuple(
                str(input_series["series"])
                for input_series in _holding(test.get("input_series"), "series")
            ),
        )
        for path, text in texts.items()
        for test in _holding(_parse_yaml(text), "alert_rule_test")
        for question in _holding(test["alert_rule_test"], "alertname")
    ]


def queries(text: str) -> Iterator[Query]:
    """Yield every query in a dashboard: from panels, annotations and variables."""
    document = _mapping(_parse_json(text))
    for panel in _holding(document.get("panels"), "targets"):
        for target in _holding(panel["targets"], "expr"):
            where = f"panel {str(panel.get('title', ''))!r}"
            yield Query(where, str(target["expr"]), str(target.get("legendFormat", "")))
    for annotation in _holding(document.get("annotations"), "expr"):
        where = f"annotation {str(annotation.get('name', ''))!r}"
        legend = str(annotation.get("titleFormat", ""))
        yield Query(where, str(annotation["expr"]), legend)
    for variable in _holding(document.get("templating"), "definition"):
        where = f"variable {str(variable.get('name', ''))!r}"
        for expr in {str(variable["definition"]), _variable_query(variable)}:
            yield Query(where, expr, "")


def _variable_query(variable: Mapping[str, Any]) -> str:
    query = variable.get("query")
    return str(query.get("query", "") if isinstance(query, dict) else query)


def link_titles(text: str) -> Iterator[str]:
    """Yield the titles of all links in a dashboard."""
    for owner in _holding(_parse_json(text), "links"):
        for link in _holding(owner["links"], "title"):
            yield str(link["title"])


# The loader from libyaml, if PyYAML was built with it, takes a tenth of the time.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MOST_NESTED = 100


@lru_cache(maxsize=64)
def _parse_yaml(text: str) -> Any:
    """Parse a YAML document; None if it is invalid.

    The result is cached, so callers must not change it.
    """
    try:
        if _is_too_deep(text):
            return None
        loaded = yaml.load(text, Loader=_LOADER)
        # Converting to JSON rejects a document that contains itself.
        return json.loads(json.dumps(loaded, default=str, skipkeys=True))
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


def _is_too_deep(text: str) -> bool:
    """Return whether it is nested deeper than any generated file; libyaml crashes at 100,000."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _MOST_NESTED:
            return True
    return False


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _holding(value: Any, key: str) -> Iterator[dict[str, Any]]:
    """Yield every mapping that holds `key`, at any depth."""
    if isinstance(value, dict):
        if key in value:
            yield value
        for inner in value.values():
            yield from _holding(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _holding(inner, key)
