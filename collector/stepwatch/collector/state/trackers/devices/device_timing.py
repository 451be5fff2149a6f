"""Which ranks have their steps timed on a device, and why the others have not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stepwatch.collector.state.folding.rows import chosen
from stepwatch.collector.state.tracker import Batches, JoinedTracker, TrackedAttempt
from stepwatch.signals.phrases import ranks_text
from stepwatch.signals.records import Kind, LifecycleEvent

SHOWN_REASONS = 2
"""Reasons that are said; a job has one, or one for each kind of node."""


class Timed(NamedTuple):
    """Whether a rank said that its device times its steps; `text` the device's type, or why not.

    `at_ns` is when it said so, monotonic on its node.
    """

    on_device: bool
    text: str
    at_ns: int


class DeviceTiming(JoinedTracker):
    """Newest DEVICE_TIMING event of each rank that sent one: `of` maps a rank below the world."""

    kinds = frozenset({Kind.LIFECYCLE})
    order = 12

    def __init__(self) -> None:
        self.of: dict[int, Timed] = {}
        self._timed = 0

    def fold(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Fold DEVICE_TIMING rows in; of two of one rank the later one counts, as it arrives."""
        rows = batches.table(Kind.LIFECYCLE).rows
        rows = chosen(rows, rows["event"] == LifecycleEvent.DEVICE_TIMING)
        in_world = (rows["rank"] >= 0) & (rows["rank"] < attempt.world)
        attempt.refused_records += int((~in_world).sum())
        columns = (rows[name][in_world].tolist() for name in ("rank", "time_ns", "value", "text"))
        for rank, at_ns, value, text in zip(*columns, strict=True):
            previous = self.of.get(rank)
            if previous is None or previous.at_ns <= at_ns:
                self.of[rank] = Timed(value == 1, text.decode("utf-8", "replace"), at_ns)
        if in_world.any():
            self._timed = sum(timed.on_device for timed in self.of.values())

    @property
    def all_timed(self) -> bool | None:
        """Whether each rank that said anything is timed on its device; None where none did."""
        return self._timed == len(self.of) if self.of else None

    @property
    def timed_ranks(self) -> int:
        """How many ranks say that they are timed on their devices now."""
        return self._timed

    def untimed(self, ranks: Iterable[int]) -> list[int]:
        """Those of `ranks` that said that no device times their steps."""
        return [rank for rank in ranks if rank in self.of and not self.of[rank].on_device]

    def devices(self) -> list[str]:
        """Types of the devices that time steps, in order."""
        return sorted({timed.text for timed in self.of.values() if timed.on_device and timed.text})

    def reason(self, ranks: Iterable[int]) -> str:
        """Why the steps of these ranks are timed on the host: `ranks 0-3: no accelerator`."""
        by_reason: dict[str, list[int]] = {}
        for rank in ranks:
            if rank in self.of:
                by_reason.setdefault(self.of[rank].text or "unknown", []).append(rank)
        common = sorted(by_reason.items(), key=lambda entry: -len(entry[1]))[:SHOWN_REASONS]
        return "; ".join(f"{ranks_text(members)}: {why}" for why, members in common)

    @property
    def cells(self) -> int:
        """What it holds, for the bound on live state."""
        return len(self.of)
