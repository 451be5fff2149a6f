"""How a device's boundaries come into the compiled timeline, which asks for them itself."""

from __future__ import annotations

from .plain.device_timeline import EndStep, Marks
from .plain.timeline import Timeline


def put_boundaries(timeline: Timeline, marks: Marks, ended: EndStep) -> None:
    """From now on `timeline` records boundaries, and calls `ended` at the end of each step."""
    timeline.marks, timeline.ended = marks, ended


def remove_boundaries(timeline: Timeline) -> None:
    """Time the host alone from now on."""
    timeline.marks = timeline.ended = None
