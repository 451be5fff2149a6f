"""All dashboards with the answers of a Prometheus to each query, as one JSON document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from stepwatch.alerts.links import DEFAULT_GRAFANA, DEFAULT_RUNBOOKS, Links
from stepwatch.cli import artefacts
from tests.dashboards.served.grafana import Source, fill

BOARDS = {
    artefact.name: artefact.text
    for artefact in artefacts.build(
        Links(DEFAULT_RUNBOOKS, DEFAULT_GRAFANA), [artefacts.DASHBOARDS]
    )
}
"""Text of each generated dashboard, by file name."""


def recording(
    source: Source,
    now: float,
    range_seconds: int = 60,
    preferred: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return for each dashboard file the dashboard, the chosen variables and `answers`.

    An answer has the panel's id, the query's refId and text with its variables filled in, and the
    answer of Prometheus. `preferred` maps a variable to a chosen value.
    """
    return {
        "from": now - range_seconds,
        "to": now,
        "boards": {
            name: record_board(source, text, now, range_seconds, preferred)
            for name, text in BOARDS.items()
        },
    }


def record_board(
    source: Source,
    text: str,
    now: float,
    range_seconds: int = 60,
    preferred: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """A dashboard with the variables that are chosen, and the answer to each query."""
    variables = source.variables(text, preferred)
    board = json.loads(text)
    answers = []
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            expr = fill(target["expr"], variables, range_seconds)
            instant = bool(target.get("instant"))
            kind, result = source.ask(expr, instant, now, range_seconds)
            answers.append(
                {
                    "panel": panel["id"], "ref": target["refId"], "expr": expr,
                    "instant": instant, "type": kind, "result": result,
                }
            )  # fmt: skip
    return {"board": board, "variables": variables, "answers": answers}
