"""Grafana's queries to Prometheus for a dashboard, with their variables filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import httpx

STEP_SECONDS = 5
_LABEL_VALUES = re.compile(r"label_values\((?P<series>.+), (?P<label>\w+)\)")
_SPECIAL = re.compile(r"[\\^$.*+?()\[\]{}|]")


def escape(value: str) -> str:
    """A value within a matcher of a regular expression, inside a PromQL string."""
    return _SPECIAL.sub(lambda match: "\\\\" + match[0], value)


def fill(expr: str, variables: Mapping[str, str | Sequence[str]], range_seconds: int = 60) -> str:
    """The query with durations and variables in place; several values become alternatives.

    `$__rate_interval` is the step and three scrapes, which come as often as a step here.
    """
    durations = {"rate_interval": 4 * STEP_SECONDS, "range": range_seconds}
    for name, seconds in (*durations.items(), ("interval", STEP_SECONDS)):
        expr = expr.replace(f"$__{name}", f"{seconds}s")
    for name, value in variables.items():
        many = value if isinstance(value, str) else "|".join(map(escape, value))
        text = many if isinstance(value, str) or len(value) == 1 else f"({many})"
        # No replacement text: its backslashes would be interpreted.
        expr = text.join(re.split(rf"\${name}\b", expr))
    return expr


class Source:
    """A Prometheus data source."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=20.0)

    def values(self, definition: str, variables: Mapping[str, str | Sequence[str]]) -> list[str]:
        """Values of a variable, in their order."""
        match = _LABEL_VALUES.fullmatch(definition)
        assert match, definition
        series = fill(match["series"], variables)
        answer = self._get(f"/api/v1/label/{match['label']}/values", {"match[]": series})
        return sorted(answer)

    def variables(
        self, text: str, preferred: Mapping[str, str] = MappingProxyType({})
    ) -> dict[str, str | Sequence[str]]:
        """Return a dashboard's initial choices: all of several values, else the first.

        `preferred` replaces the first value where only one value is possible.
        """
        chosen: dict[str, str | Sequence[str]] = {}
        for variable in json.loads(text)["templating"]["list"]:
            if variable["type"] == "query":
                values = self.values(variable["query"]["query"], chosen)
                assert values, f"no value of {variable['name']}"
                first = preferred.get(variable["name"], values[0])
                chosen[variable["name"]] = values if variable["multi"] else first
        return chosen

    def ask(
        self, expr: str, instant: bool, now: float, range_seconds: int = 60
    ) -> tuple[str, list[dict[str, Any]]]:
        """Type and series of the answer."""
        if instant:
            data = self._get("/api/v1/query", {"query": expr, "time": str(now)})
        else:
            # On whole steps, as Grafana aligns a range.
            end = now - now % STEP_SECONDS
            span = {"start": str(end - range_seconds), "end": str(end), "step": str(STEP_SECONDS)}
            data = self._get("/api/v1/query_range", {"query": expr, **span})
        return data["resultType"], data["result"]

    def exemplars(self, expr: str, now: float, range_seconds: int = 60) -> list[dict[str, Any]]:
        """Exemplars of the series that a query reads."""
        span = {"start": str(now - range_seconds), "end": str(now)}
        series_list = self._get("/api/v1/query_exemplars", {"query": expr, **span})
        return [exemplar for series in series_list for exemplar in series["exemplars"]]

    def close(self) -> None:
        self._client.close()

    def _get(self, path: str, query: Mapping[str, str]) -> Any:
        answer = self._client.get(path, params=dict(query))
        assert answer.status_code == 200, f"{query}: {answer.text}"
        return answer.json()["data"]
