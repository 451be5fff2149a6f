"""The rules of Grafana's dashboard linter, on every dashboard; linter.toml describes each rule."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwatch.alerts.links import DEFAULT_GRAFANA, DEFAULT_RUNBOOKS, Links
from stepwatch.cli import artefacts, promql
from stepwatch.cli.documents import queries
from stepwatch.signals.names import METRICS

Page = dict[str, Any]
RULES: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("linter.toml").read_text(encoding="utf-8")
)
BOARDS = {
    artefact.name: artefact.text
    for artefact in artefacts.build(
        Links(DEFAULT_RUNBOOKS, DEFAULT_GRAFANA), [artefacts.DASHBOARDS]
    )
}
_WINDOW = re.compile(r"\b(?:rate|irate|increase)\([^\[\]]*\[([^\]]+)\]")
_COUNTER = re.compile(r"(\w+)?\(?\b(stepwatch_\w+_total)\b")


def panels(page: Page) -> list[Page]:
    return [panel for panel in page["panels"] if panel["type"] != "row"]


def variables(page: Page, kind: str) -> list[Page]:
    return [variable for variable in page["templating"]["list"] if variable["type"] == kind]


def exprs(page: Page) -> Iterator[tuple[str, str]]:
    for panel in panels(page):
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def template_datasource(page: Page) -> Iterator[str]:
    (source,) = variables(page, "datasource")
    if (source["name"], source["label"]) != ("datasource", "Data source"):
        yield "datasource"


def template_on_time_change_reload(page: Page) -> Iterator[str]:
    yield from (
        variable["name"] for variable in variables(page, "query") if variable["refresh"] != 2
    )


def template_label_promql(page: Page) -> Iterator[str]:
    series = promql.exported(METRICS)
    for variable in variables(page, "query"):
        if promql.read(variable["query"]["query"], series).problems:
            yield variable["name"]


def template_named(name: str) -> Callable[[Page], Iterator[str]]:
    def rule(page: Page) -> Iterator[str]:
        matches = [variable for variable in variables(page, "query") if variable["name"] == name]
        if not any(variable["multi"] and variable.get("allValue") == ".+" for variable in matches):
            yield name

    return rule


def panel_datasource(page: Page) -> Iterator[str]:
    for panel in panels(page):
        if panel["datasource"]["uid"] != "${datasource}":
            yield panel["title"]


def panel_title_description(page: Page) -> Iterator[str]:
    for panel in panels(page):
        if not panel.get("title") or not panel.get("description"):
            yield panel.get("title", "")


def panel_units(page: Page) -> Iterator[str]:
    for panel in panels(page):
        axis = panel.get("options", {}).get("yAxis", {}).get("unit")
        if not (panel["fieldConfig"]["defaults"].get("unit") or axis):
            yield panel["title"]


def panel_no_targets(page: Page) -> Iterator[str]:
    yield from (panel["title"] for panel in panels(page) if not panel["targets"])


def target_promql(page: Page) -> Iterator[str]:
    series = promql.exported(METRICS)
    for query in queries(json.dumps(page)):
        if promql.read(query.expr, series).problems:
            yield query.where


def target_rate_interval(page: Page) -> Iterator[str]:
    for title, expr in exprs(page):
        if any(window != "$__rate_interval" for window in _WINDOW.findall(expr)):
            yield title


def target_counter_agg(page: Page) -> Iterator[str]:
    for title, expr in exprs(page):
        if any(call not in ("rate", "increase", "irate") for call, _ in _COUNTER.findall(expr)):
            yield title


def target_with(label: str) -> Callable[[Page], Iterator[str]]:
    def rule(page: Page) -> Iterator[str]:
        wanted = re.compile(rf'\b{label}=~"\${label}"')
        yield from (title for title, expr in exprs(page) if not wanted.search(expr))

    return rule


def uneditable_dashboard(page: Page) -> Iterator[str]:
    if page["editable"]:
        yield page["title"]


CHECKS: dict[str, Callable[[Page], Iterator[str]]] = {
    "template-datasource-rule": template_datasource,
    "template-on-time-change-reload-rule": template_on_time_change_reload,
    "template-label-promql-rule": template_label_promql,
    "template-job-rule": template_named("job"),
    "template-instance-rule": template_named("instance"),
    "panel-datasource-rule": panel_datasource,
    "panel-title-description-rule": panel_title_description,
    "panel-units-rule": panel_units,
    "panel-no-targets-rule": panel_no_targets,
    "target-promql-rule": target_promql,
    "target-rate-interval-rule": target_rate_interval,
    "target-counter-agg-rule": target_counter_agg,
    "target-job-rule": target_with("job"),
    "target-instance-rule": target_with("instance"),
    "uneditable-dashboard": uneditable_dashboard,
}


def test_every_rule_is_checked_and_says_what_it_asks() -> None:
    assert set(RULES) == set(CHECKS)
    assert all(rule["asks"] for rule in RULES.values())


@pytest.mark.parametrize("rule", sorted(CHECKS))
@pytest.mark.parametrize("board", sorted(BOARDS))
def test_a_dashboard_keeps_the_rule_or_is_excused(board: str, rule: str) -> None:
    offences = set(CHECKS[rule](json.loads(BOARDS[board])))
    excused = RULES[rule].get("excused", {})
    assert not offences or "*" in excused or offences <= set(excused), sorted(offences)


def test_a_breach_is_found() -> None:
    page = json.loads(BOARDS["checkpoints.json"])
    first = panels(page)[0]
    first["description"] = ""
    first["fieldConfig"]["defaults"]["unit"] = ""
    first["targets"][0]["expr"] = (
        "rate(stepwatch_job_tokens_total[5m]) + stepwatch_job_tokens_total"
    )
    page["editable"] = True
    for rule in (
        panel_title_description, panel_units, target_rate_interval, target_counter_agg,
        uneditable_dashboard,
    ):  # fmt: skip
        assert list(rule(page)), rule
