"""Report on a simulated run: data sent, cost, and the collector's findings, as text and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from stepwatch.cli import text

from .run import Outcome

_INCIDENT_KEYS = (
    "id", "kind", "state", "rank", "node", "cause", "since_step", "detected_after_seconds",
)  # fmt: skip


def report_json(outcome: Outcome) -> dict[str, Any]:
    """Return the report for `--json FILE`; seconds and bytes, null if unknown."""
    plan, sent = outcome.plan, asdict(outcome.sent)
    return {
        "job": plan.job,
        "ranks": plan.ranks,
        "nodes": plan.nodes,
        "step_seconds": plan.step_seconds,
        "newest_step": outcome.newest_step,
        "state": outcome.state,
        "interrupted": outcome.interrupted,
        **sent,
        "rank_steps_per_second": _per(outcome, "wall_seconds"),
        "rank_steps_per_cpu_second": _per(outcome, "cpu_seconds"),
        "rank_steps_per_making_second": _per(outcome, "making_seconds"),
        "faults": [{"fault": fault, "began_at": began_at} for fault, began_at in outcome.faults],
        "incidents": [
            {key: item[key] for key in _INCIDENT_KEYS}
            | {"opened_after_fault_seconds": opened_after(outcome, item)}
            for item in outcome.incidents
        ],
    }


def report_text(outcome: Outcome) -> str:
    """Return the report as text for readers."""
    plan, sent = outcome.plan, outcome.sent
    lines = [
        f"job {plan.job}: {plan.ranks:,} ranks on {plan.nodes:,} nodes, "
        f"{outcome.newest_step + 1:,} steps of {text.seconds(plan.step_seconds)}; the collector "
        f"reports it as {outcome.state or text.UNKNOWN}",
        "",
        *(f"  {name:<13}{value}" for name, value in _figures(outcome)),
        "",
    ]
    for fault, began_at in outcome.faults:
        lines.append(f"  injected     {fault}, began {text.clock(began_at)}")
    if not outcome.faults:
        lines.append("  injected     nothing")
    lines += ["", _incidents(outcome)]
    if not outcome.is_complete:
        lines += [
            "",
            f"the collector refused {sent.refused} segments and did not take {sent.unsent}",
        ]
    return "\n".join(lines)


def _figures(outcome: Outcome) -> list[tuple[str, str]]:
    sent = outcome.sent
    step_bytes = sent.nbytes / sent.rank_steps if sent.rank_steps else None
    speeds = [_per(outcome, name) for name in ("wall_seconds", "cpu_seconds", "making_seconds")]
    rates = [text.number(speed, 0) for speed in speeds]
    return [
        ("sent", f"{sent.rank_steps:,} rank-steps in {sent.segments:,} segments"),
        ("speed", f"{rates[0]} rank-steps a second, {rates[1]} a CPU-second of its own"),
        ("making them", f"{rates[2]} rank-steps a CPU-second"),
        ("bytes", f"{sent.nbytes:,}, {text.number(step_bytes, 0)} a rank-step"),
        ("late", f"up to {text.seconds(sent.late_seconds)}"),
        (
            "requests",
            f"{sent.failed_requests} failed, {sent.repeated} segments repeated, "
            f"{sent.refused} refused, {sent.unsent} not taken",
        ),
    ]


def _incidents(outcome: Outcome) -> str:
    if not outcome.incidents:
        return "  no incident"
    head = ("incident", "kind", "rank", "node", "cause", "since step", "after the fault")
    rows = [
        (
            item["id"],
            item["kind"],
            str(item["rank"]) if item["rank"] >= 0 else "none",
            item["node"],
            item["cause"],
            str(item["since_step"]),
            text.seconds(opened_after(outcome, item)),
        )
        for item in outcome.incidents
    ]
    return text.table(head, rows, left_columns=5)


def opened_after(outcome: Outcome, incident: dict[str, Any]) -> float | None:
    """Return the seconds from the newest fault before an incident to its opening.

    None without such a fault, or if the run was not in real time.
    """
    if outcome.plan.speed != 1.0:
        return None
    earlier_faults = [
        began_at for _, began_at in outcome.faults if began_at <= incident["opened_at"]
    ]
    return incident["opened_at"] - max(earlier_faults) if earlier_faults else None


def _per(outcome: Outcome, name: str) -> float | None:
    seconds = float(getattr(outcome.sent, name))
    return outcome.sent.rank_steps / seconds if seconds > 0 else None
