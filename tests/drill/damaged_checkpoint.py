"""A checkpoint that was good and is damaged: from the save to the draft of the post-mortem."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stepwatch.collector.job_states import GOING_ON
from stepwatch.signals.names import ALERT_CHECKPOINT_UNVERIFIED
from tests.soak.processes import CLI

from . import trial as trials
from .chain.pager import FIRING
from .chain.servers import DrillError
from .chain.site import Site, wait
from .faults import STEP
from .scoreboard import Check
from .trial import NEVER, Tell

_JOB = "drill-damaged-checkpoint"
_NEVER_SAVES = ("--checkpoint-every", "1000000")
"""Only a preemption saves: two readings accuse a checkpoint, and a newer save forestalls them."""
_AGAIN = ("--reverify-days", "0.0001")
_SAVED_SECONDS, _NOTICED_SECONDS = 240.0, 600.0
_RANK = 1


def damaged_checkpoint(site: Site, tell: Tell) -> Check:
    """The newest checkpoint rots: a page, the last good one, a restart from it, and a draft."""
    _restart_agents(site, *_AGAIN)
    try:
        return _run(site, tell)
    finally:
        site.training.kill()
        _restart_agents(site)


def _restart_agents(site: Site, *options: str) -> None:
    for number, node in enumerate(site.nodes):
        node.end(signal.SIGTERM)
        site.start_agent(number, *options)


def _run(site: Site, tell: Tell) -> Check:
    shown = "paged, resumed from the last good one, a draft with actions"
    good, newest = (_saved(site, count) for count in (1, 2))
    tell(f"steps {good['step']} and {newest['step']} verified")
    attempt = site.training.start(_JOB, (), _NEVER_SAVES)
    site.wait_step(_JOB, newest["step"] + STEP, attempt)
    _flip(Path(newest["path"]))
    began = time.time()
    pages = wait(_NOTICED_SECONDS, lambda: _pages(site))
    delay = pages[0] - began if pages else NEVER
    tell("paged" if pages else "no page")
    incident = _incident(site)
    os.kill(site.training.pids()[_RANK], signal.SIGKILL)
    wait(trials.VERDICT_SECONDS, lambda: site.job(_JOB).get("state") not in GOING_ON)
    attempt = site.training.start(_JOB, (), _NEVER_SAVES)
    site.wait_step(_JOB, good["step"] + 2, attempt)
    problems = [*([] if pages else ["no page"]), *_problems(site, incident, newest, good, attempt)]
    return Check("checkpoint rots", shown, delay, tuple(problems))


def _saved(site: Site, count: int) -> dict[str, Any]:
    """Train until a preemption saves; return the newest of `count` verified checkpoints.

    Raises:
        DrillError: it is not verified.
    """
    attempt = site.training.start(_JOB, (), _NEVER_SAVES)
    begun = max((item["step"] for item in site.checkpoints(_JOB)), default=0)
    site.wait_step(_JOB, begun + STEP, attempt)
    site.training.preempt()
    verified = wait(
        _SAVED_SECONDS,
        lambda: items if len(items := _verified(site)) >= count else None,
    )
    if not verified:
        states = [(item["step"], item["state"]) for item in site.checkpoints(_JOB)]
        raise DrillError(f"{_JOB}: {count} verified checkpoints expected, there are: {states}")
    return verified[0]


def _verified(site: Site) -> list[dict[str, Any]]:
    return [item for item in site.checkpoints(_JOB) if item["state"] == "verified"]


def _flip(path: Path) -> None:
    """Flip one bit in the largest file, whose time stays: the storage changed it."""
    if not path.is_absolute():
        raise DrillError(f"{_JOB}: no path was reported, but {str(path)!r}")
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    file = max(files, key=lambda item: item.stat().st_size)
    status = file.stat()
    with file.open("r+b") as target:
        target.seek(status.st_size // 2)
        byte = target.read(1)[0]
        target.seek(status.st_size // 2)
        target.write(bytes([byte ^ 1]))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def _pages(site: Site) -> list[float]:
    return [
        notification.arrived_at
        for notification in site.notifications()
        if (notification.job, notification.alert, notification.status)
        == (_JOB, ALERT_CHECKPOINT_UNVERIFIED, FIRING)
    ]


def _incident(site: Site) -> dict[str, Any]:
    """Return the incident about the damage; empty without one."""
    named = wait(
        trials.VERDICT_SECONDS,
        lambda: [item for item in site.incidents(_JOB) if item["cause"] == "storage-fault"],
    )
    return named[0] if named else {}


def _problems(
    site: Site, incident: dict[str, Any], newest: dict[str, Any], good: dict[str, Any], attempt: int
) -> Iterator[str]:
    words = f"the checkpoint of step {newest['step']} was good and is damaged now"
    summary = incident.get("summary", "no incident")
    if words not in summary or f"the last good one is of step {good['step']}" not in summary:
        yield f"the incident says: {summary}"
    attempts = {item["attempt"]: item for item in site.job(_JOB)["attempts"]}
    resumed = (attempts[attempt]["resume"] or {}).get("step")
    if resumed is None or not good["step"] <= resumed <= good["step"] + 1:
        yield f"resumed from {resumed}, the last good one is of step {good['step']}"
    if not incident:
        return
    draft = subprocess.run(
        [*CLI, "postmortem", incident["id"], "--collector", site.collectors[0].url],
        capture_output=True,
        text=True,
        check=False,
    )
    for needed in (
        "device-time wasted:",
        f"last good checkpoint: step {good['step']}",
        "## Action items (draft)",
        "- [ ] ",
    ):
        if needed not in draft.stdout:
            yield f"the draft lacks {needed!r}: {draft.stderr.strip() or draft.stdout}"
