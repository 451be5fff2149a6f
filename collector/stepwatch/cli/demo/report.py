"""A demo's final report, as text and as JSON for programs."""

from __future__ import annotations

from typing import Any

from stepwatch.cli import text
from stepwatch.cli.demo.plan import Plan
from stepwatch.cli.jobs.status_text import pace_lines, rank_table
from stepwatch.cli.response.incident_text import headline

_WIDTH = text.NARROW - 2
_INCIDENT_KEYS = (
    "id",
    "kind",
    "rank",
    "node",
    "phase",
    "cause",
    "since_step",
    "detected_after_seconds",
    "runbook",
)


def report_json(job: dict[str, Any], page_url: str) -> dict[str, Any]:
    """Return the report for `--json FILE`; seconds and ratios, null if unknown."""
    return {
        "loss_first": job["loss_first"],
        "loss_last": job["loss_last"],
        "tokens_per_second": job["tokens_per_second"],
        "step_seconds": job["step_seconds"],
        "ranks": [_picked(rank, ("rank", "node", "stage", "phase_share")) | _waits(rank)
                  for rank in job["ranks"]],
        "checkpoints": [
            _picked(item, ("step", "verified", "stall_seconds")) for item in job["checkpoints"]
        ],
        "device_seconds": job["device_seconds"],
        "slos": [_picked(slo, ("name", "state", "budget_remaining")) for slo in job["slos"]],
        "incidents": [_picked(incident, _INCIDENT_KEYS) for incident in job["incidents"]],
        "page_url": page_url,
    }  # fmt: skip


def report_text(job: dict[str, Any], plan: Plan, page_url: str) -> str:
    """Return the report as text for readers, within 80 columns."""
    faults = "; ".join(plan.fault_texts) or "none"
    shape = "4 ranks (2 pipeline stages x 2 shards)"
    lines = [
        "",
        text.wrapped(f"{plan.steps} steps on {shape}, fault: {faults}", "  ").lstrip(),
        "",
        *(
            f"  {name:<13}{text.wrapped(value, ' ' * 15).lstrip()}"
            for name, value in pace_lines(job)
        ),
        "",
        rank_table(job["ranks"]),
        "",
    ]
    source = f"--store {plan.store}" if plan.keeps_files else None
    for incident in job["incidents"]:
        lines += [headline(incident, source), ""]
    if not job["incidents"]:
        lines += ["no incident", ""]
    return "\n".join([*lines, *_where(plan, page_url)])


def _where(plan: Plan, page_url: str) -> list[str]:
    if not plan.keeps_files:
        return [
            f"page: {page_url} (closed with the demo; --hold keeps it open,",
            "      --keep DIR keeps the store)",
        ]
    store = plan.store
    return [
        f"page:  {page_url}",
        "       while this runs:",
        text.command(f"stepwatch collector --store {store} --port {plan.port}", "       ", _WIDTH),
        text.command(f"ask:   stepwatch incidents --store {store}", "", _WIDTH),
    ]


def _picked(item: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: item[key] for key in keys}


def _waits(rank: dict[str, Any]) -> dict[str, Any]:
    return _picked(rank, ("collective_wait_share", "pipeline_wait_share"))


def incident_note(incident: dict[str, Any], elapsed: float) -> str:
    """Return the line for an incident that just opened, within 80 columns."""
    note = f"INCIDENT {incident['kind']}: {incident['summary']}"
    return f"{elapsed:4.0f} s  {text.wrapped(note, '        ').lstrip()}"
