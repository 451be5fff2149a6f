"""What Grafana sends to Prometheus for a dashboard: queries with their variables filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import httpx

DURATIONS = {"$__rate_interval": "20s", "$__range": "60s", "$__interval": "5s"}
_LABEL_VALUES = re.compile(r"label_values\((?P<series>.+), (?P<label>\w+)\)")
_FORMATTED = re.compile(r"[\\^$.*+?()\[\]{}|]")


class Target(NamedTuple):
    """One query of a panel: its board, the panel's title, whether it is instant, and PromQL."""

    board: str
    title: str
    instant: bool
    expr: str


def targets(board: str, text: str) -> Iterator[Target]:
    """Every query of every panel."""
    for panel in json.loads(text)["panels"]:
        for target in panel.get("targets", []):
            yield Target(board, panel["title"], bool(target.get("instant")), target["expr"])


def escaped(value: str) -> str:
    """A value within a matcher of a regular expression, inside a PromQL string."""
    return _FORMATTED.sub(lambda found: "\\\\" + found[0], value)


def filled(expr: str, variables: Mapping[str, str | Sequence[str]]) -> str:
    """The query with durations and variables in place; several values become alternatives."""
    for name, duration in DURATIONS.items():
        expr = expr.replace(name, duration)
    for name, value in variables.items():
        many = value if isinstance(value, str) else "|".join(map(escaped, value))
        text = many if isinstance(value, str) or len(value) == 1 else f"({many})"
        # As it is: a replacement text would have its backslashes read again.
        expr = text.join(re.split(rf"\${name}\b", expr))
    return expr


class Source:
    """A Prometheus data source."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=20.0)

    def values(self, definition: str, variables: Mapping[str, str | Sequence[str]]) -> list[str]:
        """Values of a variable, in their order."""
        found = _LABEL_VALUES.fullmatch(definition)
        assert found, definition
        series = filled(found["series"], variables)
        answer = self._get(f"/api/v1/label/{found['label']}/values", {"match[]": series})
        return sorted(answer)

    def variables(self, text: str) -> dict[str, str | Sequence[str]]:
        """Choices with which a dashboard opens: all of several values, else the first."""
        chosen: dict[str, str | Sequence[str]] = {}
        for variable in json.loads(text)["templating"]["list"]:
            if variable["type"] == "query":
                found = self.values(variable["query"]["query"], chosen)
                assert found, f"no value of {variable['name']}"
                chosen[variable["name"]] = found if variable["multi"] else found[0]
        return chosen

    def ask(self, expr: str, instant: bool, now: float) -> tuple[str, list[dict[str, Any]]]:
        """Type and series of the answer."""
        if instant:
            data = self._get("/api/v1/query", {"query": expr, "time": str(now)})
        else:
            span = {"start": str(now - 60), "end": str(now), "step": "5"}
            data = self._get("/api/v1/query_range", {"query": expr, **span})
        return data["resultType"], data["result"]

    def close(self) -> None:
        self._client.close()

    def _get(self, path: str, query: Mapping[str, str]) -> Any:
        answer = self._client.get(path, params=dict(query))
        assert answer.status_code == 200, f"{query}: {answer.text}"
        return answer.json()["data"]
