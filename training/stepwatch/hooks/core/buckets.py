"""The buckets to which a step's time counts, and their place in the ring's live lines."""

from __future__ import annotations

from stepwatch.signals.blackbox import LiveLine
from stepwatch.signals.blackbox.layout import COLLECTIVE_AT, LIVE_AT, pack_live
from stepwatch.signals.records import Op, Phase

COLLECTIVE = len(Phase)
PIPELINE_WAIT = COLLECTIVE + 1
BUCKETS = COLLECTIVE + 2

LIVE = LIVE_AT // 8
LIVE_WORD = LIVE + 1
COLLECTIVE_LINE = COLLECTIVE_AT // 8
LIVE_BITS = (
    *(pack_live(LiveLine(0, 0, 0, phase))[1] for phase in Phase),
    0,
    pack_live(LiveLine(0, 0, 0, Phase.OTHER, waiting=True))[1],
)
"""High part of a live word for each bucket; a collective leaves the live line unchanged."""
MICROBATCH_SHIFT = 32
INSIDE = 1 << 56
"""The bit of the collective line that says the rank is inside."""
OPS_BY_NAME = {op.name.lower(): op for op in Op}
