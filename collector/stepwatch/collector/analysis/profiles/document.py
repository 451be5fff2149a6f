"""A comparison of two profiles as a JSON object."""

from __future__ import annotations

from typing import Any

from .comparison import Comparison
from .trace import Profile

MOST_ROWS = 10
"""Most activities in a document, those with the largest excess."""


def comparison_document(slow: Profile, comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as a JSON object; times are seconds a step."""
    return {
        "rank": comparison.slow,
        "peer": comparison.peer,
        "first_step": slow.first_step,
        "steps": slow.steps,
        "step_seconds": slow.step_s,
        "pattern": comparison.pattern.value,
        "excess_seconds": comparison.excess_s,
        "on_device": comparison.on_device,
        "waits": comparison.waits,
        "rows": [
            {
                "kind": row.activity.kind.value,
                "name": row.activity.name,
                "modules": row.activity.place,
                "code": row.activity.code,
                "seconds": row.slow_s,
                "peer_seconds": row.peer_s,
            }
            for row in comparison.rows[:MOST_ROWS]
        ],
    }
