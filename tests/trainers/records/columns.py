"""Compares what people look for after a kill with the ranks' journals: right, unknown, or wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.trainers.comparison import RIGHT, UNKNOWN, WRONG, Mark

COLUMNS = (
    "user-metrics", "validation", "learning-rate", "ckpt-verified", "damage-found", "resume-seen",
    "loss-continued", "SLOs",
)  # fmt: skip
DEFAULT_SLOS = frozenset(
    {"goodput", "step-time", "step-time-spread", "checkpoint-stall", "checkpoint-success"}
    | {"resume-success"}
)
"""SLOs of the class `production` as shipped."""
_LEAST_STEPS = 10
_NEAR = 1e-5
"""Relative difference of equal numbers: records hold float32 or float64."""
_SETTLED_STEPS = 5
"""Newest steps that perhaps not all ranks' records have."""

Document = dict[str, Any]


def compare_metric(true: Mapping[int, float], metrics: list[Document], name: str) -> Mark:
    """Compare a metric's curve with the true values by step."""
    of_steps = (item for item in metrics if not item["evaluation"])
    curves = (item["curves"] for item in of_steps if item["name"] == name)
    curve = next(curves, {"steps": None})["steps"]
    if not curve or not curve["step"]:
        return Mark(UNKNOWN, "none recorded")
    settled = max(true, default=0) - _SETTLED_STEPS
    recorded = {
        step: mean
        for step, mean in zip(curve["step"], curve["mean"], strict=True)
        if step <= settled
    }
    wrong = _differences(true, recorded)
    if wrong:
        return Mark(WRONG, f"{len(wrong)} of {len(recorded)} wrong, {wrong[0]}")
    if len(recorded) < _LEAST_STEPS:
        return Mark(UNKNOWN, f"recorded in {len(recorded)} steps only")
    return Mark(RIGHT)


def compare_validation(true: Mapping[int, float], metrics: list[Document]) -> Mark:
    """Compare the values of the evaluations, by the step after which they were made.

    A loop that logs them like any other number names them `val_loss`.
    """
    curves = next((item["curves"] for item in metrics if _is_validation(item)), None)
    if curves is None:
        return Mark(UNKNOWN, "none recorded")
    curve = curves.get("evaluations") or curves["steps"]
    recorded = dict(zip(curve["step"], curve["mean"], strict=True))
    wrong = _differences(true, recorded)
    if wrong:
        return Mark(WRONG, wrong[0])
    missing = len([step for step in true if step not in recorded])
    return Mark(WRONG, f"{missing} of {len(true)} missing") if missing else Mark(RIGHT)


def check_verified(checkpoints: list[Document], step: int) -> Mark:
    """Expect that the whole checkpoint of a step verified."""
    item = _checkpoint(checkpoints, step)
    if item is None:
        return Mark(UNKNOWN, f"no checkpoint of step {step} is known")
    word = {"verified": RIGHT, "damaged": WRONG, "failed": WRONG, "removed": WRONG}.get(
        item["state"], UNKNOWN
    )
    return Mark(word, "" if word == RIGHT else f"{item['state']} {item['reason']}".strip())


def check_damage(checkpoints: list[Document], step: int, file: Path) -> Mark:
    """Expect that the damaged checkpoint of a step was found, with the name of its `file`."""
    item = _checkpoint(checkpoints, step)
    if item is None:
        return Mark(UNKNOWN, f"no checkpoint of step {step} is known")
    if item["state"] != "damaged":
        word = WRONG if item["state"] in ("verified", "removed") else UNKNOWN
        return Mark(word, f"{item['state']} {item['reason']}".strip())
    named = item["file"] or item["path"]
    if Path(named).name != file.name:
        return Mark(WRONG, f"it names {named} instead of {file.name}")
    return Mark(RIGHT)


def check_resume(job: Document, step: int) -> Mark:
    """Expect that the newest attempt resumed at `step`, and that the job finished."""
    attempt = job["attempts"][-1]
    first, resume = attempt["first_step"], attempt["resume"]
    if resume is None:
        return Mark(UNKNOWN, f"first step {first}, no resume")
    if (resume["step"], first) != (step, step):
        return Mark(WRONG, f"resumed at {resume['step']} with step {first} instead of {step}")
    if job["state"] != "finished":
        return Mark(WRONG, f"the job is {job['state']}")
    return Mark(RIGHT)


def check_loss(job: Document) -> Mark:
    """Expect that the loss is known to continue: the trainer restored all its state."""
    resume = job["attempts"][-1].get("resume") or {}
    if resume.get("loss_continued") is None:
        before, after = (resume.get(f"loss_{when}") for when in ("before", "after"))
        return Mark(UNKNOWN, f"loss before {before}, after {after}")
    if resume["loss_continued"]:
        return Mark(RIGHT)
    return Mark(WRONG, f"a jump from {resume['loss_before']} to {resume['loss_after']}")


def check_slos(job: Document) -> Mark:
    """Expect a known state of each default SLO; a job of minutes is too young for a budget."""
    states = {slo["name"]: slo for slo in job["slos"]}
    missing = sorted(DEFAULT_SLOS - states.keys())
    if missing:
        return Mark(WRONG, f"it has no {', '.join(missing)}")
    unknown = [
        f"{name} ({slo['reason']})" for name, slo in states.items() if slo["state"] == "unknown"
    ]
    return Mark(UNKNOWN, ", ".join(unknown)) if unknown else Mark(RIGHT)


def _checkpoint(checkpoints: list[Document], step: int) -> Document | None:
    return next((item for item in checkpoints if item["step"] == step), None)


def _is_validation(metric: Document) -> bool:
    name = metric["name"]
    return bool(name == "val_loss" or (name == "loss" and metric["evaluation"]))


def _differences(true: Mapping[int, float], recorded: Mapping[int, float]) -> list[str]:
    return [
        f"step {step}: {value:g} instead of {true.get(step, math.nan):g}"
        for step, value in recorded.items()
        if not math.isclose(value, true.get(step, math.nan), rel_tol=_NEAR)
    ]
