"""A job's checkpoints as text: the recovery point, then a table. Pure."""

from __future__ import annotations

from typing import Any

from stepwatch.cli import text
from stepwatch.cli.fleet import stale_text
from stepwatch.collector.quantities import size

SHOWN = 20
"""Checkpoints in the table, the newest first."""
_BAD = ("damaged", "failed")


def checkpoints_text(job: dict[str, Any], width: int) -> str:
    """Return one job in `width` columns."""
    head = f"{job['job']}: {text.painted(job['state'])}, step {text.count(job['step'])}"
    lines = [head, text.wrapped(recovery_words(job), "  ", width, hang=2)]
    if job.get("stale"):
        lines.insert(1, text.wrapped(stale_text(job), "", width, hang=2))
    checkpoints = job["checkpoints"]
    if not checkpoints:
        return "\n".join(lines)
    rows = [
        [
            str(item["step"]),
            item["state"],
            "" if item["age_seconds"] is None else f"{text.seconds(item['age_seconds'])} ago",
            size(item["size_bytes"]),
            _reason(item),
        ]
        for item in checkpoints[:SHOWN]
    ]
    lines += ["", text.table(["step", "state", "saved", "size", "reason or path"], rows, "  ", 5)]
    more = len(checkpoints) - SHOWN + job["left_out"]
    if more > 0:
        lines.append(f"  and {text.counted(more, 'older one')}; --json shows more")
    return "\n".join(lines)


def recovery_words(job: dict[str, Any]) -> str:
    """Return the newest good checkpoint and the loss of a resume now, or why that is unknown."""
    recovery = job["recovery"]
    if not job["checkpoints"]:
        return "no checkpoint is known: a restart begins anew"
    if recovery["step"] is None:
        return "no good checkpoint is known: what a resume now would lose is unknown"
    lost = "" if recovery["steps"] is None else text.counted(recovery["steps"], "step")
    seconds = recovery["seconds"]
    work = f"{text.seconds(seconds)} of work" if seconds is not None else recovery["reason"]
    losses = " and ".join(filter(None, (lost, work)))
    good = next(item for item in job["checkpoints"] if item["step"] == recovery["step"])
    place = f" in {good['path']}" if good["path"] else ""
    return f"newest good checkpoint: step {good['step']}{place}; a resume now would lose {losses}"


def is_bad(job: dict[str, Any]) -> bool:
    """Return whether the newest checkpoint with an outcome cannot be used."""
    states = (item["state"] for item in job["checkpoints"])
    return next((state for state in states if state in (*_BAD, "verified")), "") in _BAD


def _reason(item: dict[str, Any]) -> str:
    """Return the file and the reason, or the path of a checkpoint without one."""
    file = f"{item['file']}: " if item["file"] and item["reason"] else ""
    return f"{file}{item['reason']}" if item["reason"] else item["path"]
