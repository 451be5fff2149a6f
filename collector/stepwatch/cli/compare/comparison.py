"""Two runs side by side, as one document. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from stepwatch.collector.slo.asked.rates import HOUR, RateCard

from .changes import changes
from .pace import LEAST_BLOCKS, Pace, Ratio, Verdict, has_tokens, pace, ratio, verdict

Run = Mapping[str, Any]
_SLIS = (
    "step-time-p50",
    "step-time-p95",
    "goodput",
    "mfu",
    "data-wait",
    "exposed-communication",
    "checkpoint-stall",
)
"""SLIs shown beside the pace; the runs' documents have all SLIs."""


def comparison(base: Run, new: Run, bound: float, card: RateCard | None = None) -> dict[str, Any]:
    """Return how the run `new` differs from `base`.

    A regression is slower by more than `bound` (ratio). With a rate card the quantity is tokens per
    money, so that devices with different prices are comparable.
    """
    work = "tokens" if has_tokens(base) and has_tokens(new) else "steps"
    paces = pace(base, work), pace(new, work)
    prices = _price(base, card), _price(new, card)
    pace_ratio = _ratio(paces, prices)
    blocks = tuple(run_pace.blocks if run_pace else 0 for run_pace in paces)
    apart = _not_comparable(base, new, work)
    outcome = Verdict.UNCLEAR if apart else verdict(pace_ratio, blocks, bound)
    return {
        "verdict": outcome.value,
        "why": apart or _why(outcome, pace_ratio, paces, bound),
        "bound": bound,
        "currency": card.currency if card else None,
        "quantity": f"{work} per {card.currency}" if card else f"{work}/s per device",
        "ratio": _finite(pace_ratio),
        "runs": [
            _run(run, run_pace, price if card else math.nan, work)
            for run, run_pace, price in zip((base, new), paces, prices, strict=True)
        ],
        "phases": _phases(base, new),
        "phase_steps": [_phase_steps(run) for run in (base, new)],
        "changes": [change._asdict() for change in changes(base["facts"], new["facts"])],
        "are_described": bool(base["facts"]) and bool(new["facts"]),
    }


def _not_comparable(base: Run, new: Run, work: str) -> str:
    """Return why the runs' paces are not comparable; empty if they are."""
    clocks = [run.get("clock") for run in (base, new)]
    if None not in clocks and clocks[0] != clocks[1]:
        return f"steps are timed on different clocks: {clocks[0]} and {clocks[1]}"
    sizes = [run["world_size"] for run in (base, new)]
    if work == "steps" and sizes[0] != sizes[1]:
        return (
            f"{sizes[0]} and {sizes[1]} devices, and no tokens to compare: how much work a step is "
            "differs; pass tokens= to Watch.step"
        )
    return ""


def _price(run: Run, card: RateCard | None) -> float:
    """Return money per device-second; 1.0 without a card, NaN if the card has no rate."""
    if card is None:
        return 1.0
    rate = card.on(int(run["began_at"] or 0), run["job_class"])
    return math.nan if rate is None else rate / HOUR


def _ratio(paces: tuple[Pace | None, Pace | None], prices: tuple[float, float]) -> Ratio | None:
    base, new = paces
    if base is None or new is None or not all(price > 0 for price in prices):
        return None
    cheaper = prices[0] / prices[1]
    return Ratio(*(cheaper * figure for figure in ratio(base, new)))


def _finite(pace_ratio: Ratio | None) -> dict[str, float | None] | None:
    if pace_ratio is None:
        return None
    return {name: x if math.isfinite(x) else None for name, x in pace_ratio._asdict().items()}


def _why(
    outcome: Verdict, pace_ratio: Ratio | None, paces: tuple[Pace | None, Pace | None], bound: float
) -> str:
    if pace_ratio is None:
        if None in paces:
            return "no step after the warm-up is known of one of the runs"
        return "the rate card has no rate for one of the runs"
    if min(run_pace.blocks for run_pace in paces if run_pace) < LEAST_BLOCKS:
        return f"too few steps: {LEAST_BLOCKS} parts of 5 steps after the warm-up are needed"
    if outcome is Verdict.UNCLEAR:
        return f"{bound:.3g} can neither be seen nor ruled out: steps differ too much, or are few"
    return ""


def _run(run: Run, run_pace: Pace | None, price: float, work: str) -> dict[str, Any]:
    devices = run["world_size"]
    speed = run_pace.value if run_pace else None
    return {
        "job": run["job"],
        "attempt": run["attempt"],
        "state": run["state"],
        "devices": devices,
        "steps": sum(block["steps"] for block in run["blocks"]),
        "clock": run.get("clock"),
        f"{work}_per_device_second": speed,
        f"{work}_per_second": speed * devices if speed else None,
        f"{work}_per_money": speed / price if speed and price > 0 else None,
        "slis": {name: run["slis"][name] for name in _SLIS if name in run["slis"]},
        "incidents": run["incidents"],
    }


def _phases(base: Run, new: Run) -> list[dict[str, Any]]:
    """Return a step's seconds by phase, the largest change first.

    The list is empty if a run has no steps.
    """
    base_seconds, new_seconds = (run["phase_seconds"]["seconds"] for run in (base, new))
    if not base_seconds or not new_seconds:
        return []
    rows = [
        {"phase": name, "before": base_seconds.get(name, 0.0), "after": new_seconds.get(name, 0.0)}
        for name in {**base_seconds, **new_seconds}
    ]
    return sorted(rows, key=lambda row: -abs(row["after"] - row["before"]))


def _phase_steps(run: Run) -> int:
    return int(run["phase_seconds"]["steps"])
