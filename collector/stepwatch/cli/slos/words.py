"""A job SLO in one line, with the same words in `status`, `diagnose` and the demo. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepwatch.cli import text
from stepwatch.collector.slo.states import TOO_EARLY_WORDS, SloState
from stepwatch.collector.step_clocks import HOST

_UNDECIDED = (SloState.FROZEN.value, SloState.UNKNOWN.value, SloState.TOO_EARLY.value)
"""States in which a ratio and a budget would claim more than the data supports."""
_WORST_LAST = ("ok", "too-early", "unknown", "frozen", "burning", "exhausted")
Slo = Mapping[str, Any]


def state_words(state: str) -> str:
    """Return an SLO's state in words."""
    return TOO_EARLY_WORDS if state == SloState.TOO_EARLY.value else state


def slo_line(slo: Slo) -> str:
    """Return state, ratio, target and budget, or the limit; plus the clock if it is not the hosts'.

    An undecided SLO has a reason instead of a ratio and budget.
    """
    clock = f" ({slo['clock']})" if slo.get("clock") not in (None, HOST) else ""
    words = f"{slo['name']}{clock}: {state_words(slo['state'])}"
    if slo["state"] in _UNDECIDED:
        reason = f" ({slo['reason']})" if slo.get("reason") else ""
        return f"{words}{reason}; {_objective(slo)}"
    if slo.get("limit") is not None:
        value = text.UNKNOWN if slo["ratio"] is None else text.number(slo["ratio"])
        return f"{words}, {value}, {_objective(slo)}"
    return f"{words}, {text.share(slo['ratio'])} good, {_objective(slo)}; budget {slo['budget']}"


def _objective(slo: Slo) -> str:
    limit = slo.get("limit")
    return f"target {text.share(slo['target'])}" if limit is None else f"asked {limit}"


def worst_state(slos: list[dict[str, Any]]) -> str:
    """Return the worst state, and its count if states differ: `ok`, `burning 1 of 3`."""
    states = [slo["state"] for slo in slos]
    worst = max(states, key=_rank, default=text.UNKNOWN)
    share = f" {states.count(worst)} of {len(states)}" if len(set(states)) > 1 else ""
    return f"{worst.replace('-', ' ')}{share}"


def _rank(state: str) -> int:
    return _WORST_LAST.index(state) if state in _WORST_LAST else 0
