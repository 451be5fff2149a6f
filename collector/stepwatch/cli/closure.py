"""Closure: metrics, alerts, dashboards and runbooks match, and no generated file is stale.

All functions are pure: texts in, problems out. `stepwatch check` reads the texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from stepwatch.runbooks.page import Page, verbs
from stepwatch.signals.names import ALERT_WATCHDOG, FindingKind, Metric

from . import documents, promql
from .documents import Problem

NAMES = "training/stepwatch/signals/names/findings.py"
METRICS_FOLDER = "training/stepwatch/signals/names"
PAGES = "runbooks/pages"
ANNOTATIONS = (
    "summary",
    "description",
    "impact",
    "first_action",
    "runbook_url",
    "dashboard_url",
)
"""Annotations that every alert has."""

SEVERITIES = ("page", "ticket")

_TOKEN = re.compile(r"\bstepwatch_\w+")
_TEMPLATE_LABEL = re.compile(r"\$labels\.(\w+)")
_TEMPLATE_QUERY = re.compile(r"printf `([^`]*)`")
_LEGEND_LABEL = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_RUNBOOK_LINK = "Runbook "


@dataclass(frozen=True)
class Tree:
    """Texts to compare with each other: path to text, and path to page."""

    rules: Mapping[str, str]
    dashboards: Mapping[str, str]
    runbooks: Mapping[str, Page]


@dataclass(frozen=True)
class Vocabulary:
    """Names that may be used: metrics, the alert for each kind of finding, verbs of the command."""

    metrics: Iterable[Metric]
    alert_of: Mapping[FindingKind, str]
    verbs: Iterable[str]


def problems(tree: Tree, words: Vocabulary, fresh: Mapping[str, str]) -> list[Problem]:
    """Return all mismatches; an empty list means closure.

    `fresh` maps each generated file's path to the text from a new build.
    """
    rules = documents.rules(tree.rules)
    series, unrecorded = _recorded(tree.rules, promql.exported(words.metrics))
    mismatches = [
        *documents.unreadable(tree.rules, tree.dashboards),
        *_stale({**tree.rules, **tree.dashboards}, fresh),
        *_findings(words.alert_of, {rule.name for rule in rules}),
        *_counterparts(rules, tree.runbooks),
        *unrecorded,
    ]
    for rule in rules:
        mismatches += _rule(rule, series, set(words.verbs))
    mismatches += _tests(tree.rules, rules, series)
    for path, text in tree.dashboards.items():
        mismatches += _dashboard(path, text, series, tree.runbooks)
    for path, page in tree.runbooks.items():
        mismatches += _runbook(path, page, series, set(words.verbs))
    mismatches += _unread(words.metrics, tree)
    # Two links to one missing page are one problem.
    return list(dict.fromkeys(mismatches))


def _unread(metrics: Iterable[Metric], tree: Tree) -> Iterator[Problem]:
    """Yield metrics that no rule and no dashboard reads: they cost series and have no reader."""
    exprs = [rule.expr for rule in documents.rules(tree.rules)]
    exprs += [recording.expr for recording in documents.recordings(tree.rules)]
    for text in tree.dashboards.values():
        exprs += [query.expr for query in documents.queries(text)]
    read = {token for expr in exprs for token in _TOKEN.findall(expr)}
    for metric in metrics:
        if read.isdisjoint(metric.series_names):
            yield Problem(
                METRICS_FOLDER,
                f"nothing reads {metric.name}; show it on a dashboard or stop exporting it",
            )


def _recorded(
    texts: Mapping[str, str], series: Mapping[str, promql.Labels]
) -> tuple[Mapping[str, promql.Labels], list[Problem]]:
    """Return the series with those from recording rules, in order, and the mismatches."""
    mismatches: list[Problem] = []
    for rule in documents.recordings(texts):
        series, faults = promql.recorded(rule.name, rule.expr, series)
        mismatches += [Problem(rule.path, f"recording {rule.name} {fault}") for fault in faults]
    return series, mismatches


def _stale(actual: Mapping[str, str], fresh: Mapping[str, str]) -> Iterator[Problem]:
    for path in sorted(fresh):
        if path not in actual:
            yield Problem(path, "missing: run `stepwatch build`")
        elif actual[path] != fresh[path]:
            yield Problem(path, "stale: run `stepwatch build`")
    for path in sorted(set(actual) - set(fresh)):
        yield Problem(path, "no build writes this file; delete it")


def _findings(alert_of: Mapping[FindingKind, str], alerts: set[str]) -> Iterator[Problem]:
    for kind in FindingKind:
        if kind not in alert_of:
            yield Problem(NAMES, f"finding {kind.value!r} has no alert; add it to ALERT_OF")
        elif alert_of[kind] not in alerts:
            yield Problem(
                NAMES,
                f"finding {kind.value!r} names alert {alert_of[kind]}, which no rule defines; "
                "add it to alerts/stepwatch/alerts/catalogue.py",
            )


def _counterparts(rules: list[documents.Rule], runbooks: Mapping[str, Page]) -> Iterator[Problem]:
    pages = {page.name for page in runbooks.values()}
    for rule in rules:
        if rule.name not in pages:
            yield Problem(
                rule.path, f"alert {rule.name} has no runbook; write {PAGES}/{rule.name}.md"
            )
    alerts = {rule.name for rule in rules}
    for path, page in runbooks.items():
        if page.name not in alerts:
            near = promql.nearest(page.name, alerts)
            yield Problem(path, f"no alert is named {page.name}{near or '; delete the page'}")


def _rule(
    rule: documents.Rule, series: Mapping[str, promql.Labels], known_verbs: set[str]
) -> Iterator[Problem]:
    def problem(text: str) -> Problem:
        return Problem(rule.path, f"alert {rule.name} {text}")

    reading = promql.read(rule.expr, series)
    yield from (problem(fault) for fault in reading.problems)
    if rule.severity not in SEVERITIES:
        yield problem(f"has severity {rule.severity!r}; use one of {', '.join(SEVERITIES)}")
    for key in ANNOTATIONS:
        if not rule.annotations.get(key):
            yield problem(f"has no annotation {key}; write it")
    address = rule.annotations.get("runbook_url", "").partition("?")[0]
    if not address.endswith(f"/{rule.name}"):
        yield problem("links to another runbook than its own; run `stepwatch build`")
    for key, text in rule.annotations.items():
        yield from (
            problem(f"in {key} {fault}") for fault in _template(text, series, reading.labels)
        )
        for _, verb in verbs(text):
            if verb not in known_verbs:
                yield problem(f"in {key} uses verb {verb!r}, which the command does not have")


def _template(
    text: str, series: Mapping[str, promql.Labels], labels: promql.Labels
) -> Iterator[str]:
    """Yield mismatches in a Prometheus template whose alert carries `labels`."""
    for query in _TEMPLATE_QUERY.findall(text):
        yield from promql.read(query.replace("%q", '"x"'), series).problems
    for label in _TEMPLATE_LABEL.findall(text):
        if label not in labels:
            yield f"shows label {label!r}, which the alert does not carry"
    yield from _tokens(_TEMPLATE_QUERY.sub("", text), series)


def _tokens(text: str, series: Mapping[str, promql.Labels]) -> Iterator[str]:
    """Yield unknown metric names in prose; a name that ends in `_` is a prefix."""
    for token in _TOKEN.findall(text):
        if token in series:
            continue
        if not (token.endswith("_") and any(name.startswith(token) for name in series)):
            yield f"names {token}, which nothing exports{promql.nearest(token, series)}"


def _tests(
    texts: Mapping[str, str],
    rules: list[documents.Rule],
    series: Mapping[str, promql.Labels],
) -> Iterator[Problem]:
    tests = documents.tests(texts)
    for test in tests:
        for selector in test.series:
            for fault in promql.read(selector, series).problems:
                yield Problem(test.path, f"test {test.name!r} {fault}")
    for rule in rules:
        if rule.name == ALERT_WATCHDOG:  # always fires
            continue
        outcomes = {test.fires for test in tests if test.alert == rule.name}
        for fires, word in ((True, "fires"), (False, "does not fire")):
            if fires not in outcomes:
                yield Problem(
                    rule.path, f"alert {rule.name} has no test in which it {word}; add one"
                )


def _dashboard(
    path: str,
    text: str,
    series: Mapping[str, promql.Labels],
    runbooks: Mapping[str, Page],
) -> Iterator[Problem]:
    pages = {page.name for page in runbooks.values()}
    for query in documents.queries(text):
        reading = promql.read(query.expr, series)
        for fault in reading.problems:
            yield Problem(path, f"{query.where} {fault}")
        for label in _LEGEND_LABEL.findall(query.legend):
            if not reading.problems and label not in reading.labels:
                yield Problem(path, f"{query.where} shows label {label!r}, which its query drops")
    for title in documents.link_titles(text):
        name = title.removeprefix(_RUNBOOK_LINK)
        if name != title and name not in pages:
            yield Problem(
                path, f"links to runbook {name}, which is missing; write {PAGES}/{name}.md"
            )


def _runbook(
    path: str, page: Page, series: Mapping[str, promql.Labels], known_verbs: set[str]
) -> Iterator[Problem]:
    for number, fault in page.problems():
        yield Problem(f"{path}:{number}", fault)
    for number, verb in verbs(page.markdown):
        if verb not in known_verbs:
            near = promql.nearest(verb, known_verbs)
            yield Problem(f"{path}:{number}", f"the command has no verb {verb!r}{near}")
    for number, line in enumerate(page.markdown.splitlines(), start=1):
        for fault in _tokens(line, series):
            yield Problem(f"{path}:{number}", fault)
