"""Nodes as text: a table with the reasons below it, or one node with its history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stepwatch.cli import text
from stepwatch.cli.fleet import last_seen
from stepwatch.signals.node_facts.actions import ACTIONS

_HISTORY_SHOWN = 20
_NEVER_WRONG = "healthy"
_ORDER = ("failed", "degraded", "unknown", _NEVER_WRONG)
_LASTED = ((60, 1, "s"), (3600, 60, "min"), (172_800, 3600, "h"))
_BEYOND = (86_400, "days")
Document = dict[str, Any]


def fleet_text(fleet: Document, width: int, now: float, *, only_unhealthy: bool = False) -> str:
    """Return a line per node, the worst first, then the reason for each unhealthy node."""
    nodes = sorted(fleet["nodes"], key=lambda node: (_rank(node["health"]), node["node"]))
    if not sum(fleet["counts"].values()):
        return (
            "no agent has reported a node yet; a node appears with the first job on it, where "
            "`stepwatch up` or `stepwatch agent` runs"
        )
    lines = [_summary(fleet)]
    lines += [text.wrapped(group["summary"], "", width, hang=2) for group in fleet["together"]]
    if fleet["history_cut"]:
        lines.append("there are more faults than are read at once: counts are lower bounds")
    if nodes:
        lines += ["", _table(nodes, now), *_reasons(nodes, width)]
    elif only_unhealthy:
        lines.append("no node that is not healthy")
    return "\n".join(lines)


def _rank(health: str) -> int:
    """Return the sort rank, worst first; unknown states from a later version sort first."""
    return _ORDER.index(health) if health in _ORDER else -1


def _summary(fleet: Document) -> str:
    counts = fleet["counts"]
    total = sum(counts.values())
    parts = [f"{counts[health]} {health}" for health in _ORDER if counts.get(health)]
    return f"{total} node{'' if total == 1 else 's'}: {', '.join(parts)}"


def _table(nodes: list[Document], now: float) -> str:
    head = ["node", "health", "action", "last report", "faults 7d", "30d", "jobs 30d"]
    rows = [
        [
            node["node"],
            node["health"] + ("*" if node["repeat_offender"] else ""),
            node["action"] if node["action"] != "none" else "-",
            last_seen(node["last_report"], now),
            text.count(node["faults_7d"]),
            text.count(node["faults_30d"]),
            text.count(node["jobs_30d"]),
        ]
        for node in nodes
    ]
    table = text.table(head, rows, "", left_columns=4)
    offending = any(node["repeat_offender"] for node in nodes)
    return f"{table}\n* repeat offender" if offending else table


def _reasons(nodes: list[Document], width: int) -> Iterator[str]:
    bad = [node for node in nodes if node["health"] != _NEVER_WRONG]
    if bad:
        yield ""
    for node in bad:
        yield text.wrapped(f"{node['node']}: {reason_text(node)}", "", width, hang=2)


def reason_text(node: Document) -> str:
    """Return the reason for a node's health, and the recommended action in words."""
    action = node["action"]
    return node["reason"] if action == "none" else f"{node['reason']}: {_action(action)}"


def _action(name: str) -> str:
    return next((words for action, words in ACTIONS.items() if action == name), name)


def node_text(node: Document, width: int, now: float) -> str:
    """Return one node: health, fault counts, parts and fault history."""
    since = "" if node["since"] is None else f" since {text.clock(node['since'])}"
    lines = [
        f"{node['node']}: {node['health']}{since}, last report "
        f"{last_seen(node['last_report'], now)}",
        text.wrapped(reason_text(node), "  ", width),
        text.wrapped(_offences(node), "  ", width),
    ]
    lines += [text.wrapped(f"{fact['subject']}: {fact['text']}", "  ", width, hang=2)
              for fact in node["facts"] if fact["text"]]  # fmt: skip
    if node["parts"]:
        lines += ["", _parts(node["parts"])]
    lines += ["", *_history(node)]
    return "\n".join(lines)


def _offences(node: Document) -> str:
    words = (
        f"{node['faults_7d']} fault(s) within 7 days, {node['faults_30d']} within 30; incidents of "
        f"{node['jobs_30d']} job(s) name it within 30 days"
    )
    return f"{words}; it is a repeat offender" if node["repeat_offender"] else words


def _parts(parts: list[Document]) -> str:
    rows = [[part["part"], part["health"], part["action"], str(part["faults"])] for part in parts]
    return text.table(["part", "health", "action", "faults"], rows, "  ", left_columns=3)


def _history(node: Document) -> Iterator[str]:
    shown = node["history"][:_HISTORY_SHOWN]
    if not shown:
        yield "  nothing was ever found wrong"
        return
    head = ["began", "lasted", "severity", "what", "part", "times"]
    rows = [
        [
            text.clock(fault["began"]).removesuffix(" UTC"),
            _lasted(fault),
            fault["severity"],
            fault["fact"] + ("" if fault["code"] is None else f" {fault['code']}"),
            fault["subject"] or "-",
            text.count(fault["times"]),
        ]
        for fault in shown
    ]
    yield text.table(head, rows, "  ", left_columns=5)
    hidden_count = len(node["history"]) - len(shown) + node["history_left_out"]
    if hidden_count:
        yield f"  and {hidden_count} before; --json has more"


def _lasted(fault: Document) -> str:
    """Return a fault's duration: `lasts` while present, `at least` without a reported end."""
    if fault["present"]:
        return "lasts"
    ended = fault["ended"]
    length = (fault["last_seen"] if ended is None else ended) - fault["began"]
    return ("at least " if ended is None else "") + _length(max(length, 0.0))


def _length(seconds: float) -> str:
    for below, unit, name in _LASTED:
        if seconds < below:
            return f"{seconds / unit:.0f} {name}"
    unit, name = _BEYOND
    return f"{seconds / unit:.0f} {name}"
