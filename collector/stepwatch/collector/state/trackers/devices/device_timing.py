"""Which ranks have device-timed steps, and why the others have not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stepwatch.collector.state.folding.rows import chosen
from stepwatch.collector.state.tracker import Batches, JoinedTracker, TrackedAttempt
from stepwatch.signals.phrases import ranks_text
from stepwatch.signals.records import Kind, LifecycleEvent

SHOWN_REASONS = 2
"""Maximum number of reasons shown; a job has one, or one for each kind of node."""


class Timed(NamedTuple):
    """A rank's report whether its device times its steps.

    `text` is the device type, or the reason why not; `at_ns` is the report time, monotonic on the
    rank's node.
    """

    on_device: bool
    text: str
    at_ns: int


class DeviceTiming(JoinedTracker):
    """Newest DEVICE_TIMING event per rank: `of` maps a rank below the world to it."""

    kinds = frozenset({Kind.LIFECYCLE})
    order = 12

    def __init__(self) -> None:
        self.by_rank: dict[int, Timed] = {}
        self._timed = 0

    def fold(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Fold in DEVICE_TIMING rows; a rank's later event wins."""
        rows = batches.table(Kind.LIFECYCLE).rows
        rows = chosen(rows, rows["event"] == LifecycleEvent.DEVICE_TIMING)
        in_world = (rows["rank"] >= 0) & (rows["rank"] < attempt.world)
        attempt.refused_records += int((~in_world).sum())
        columns = (rows[name][in_world].tolist() for name in ("rank", "time_ns", "value", "text"))
        for rank, at_ns, value, text in zip(*columns, strict=True):
            previous = self.by_rank.get(rank)
            if previous is None or previous.at_ns <= at_ns:
                self.by_rank[rank] = Timed(value == 1, text.decode("utf-8", "replace"), at_ns)
        if in_world.any():
            self._timed = sum(timed.on_device for timed in self.by_rank.values())

    @property
    def all_timed(self) -> bool | None:
        """Whether all reporting ranks are timed on devices; None without reports."""
        return self._timed == len(self.by_rank) if self.by_rank else None

    @property
    def timed_ranks(self) -> int:
        """Number of ranks with device timing at present."""
        return self._timed

    def untimed(self, ranks: Iterable[int]) -> list[int]:
        """Return those `ranks` that reported no device timing."""
        return [rank for rank in ranks if rank in self.by_rank and not self.by_rank[rank].on_device]

    def devices(self) -> list[str]:
        """Return the types of timing devices, sorted."""
        return sorted(
            {timed.text for timed in self.by_rank.values() if timed.on_device and timed.text}
        )

    def reason(self, ranks: Iterable[int]) -> str:
        """Return why these ranks' steps are timed on the host: `ranks 0-3: no accelerator`."""
        by_reason: dict[str, list[int]] = {}
        for rank in ranks:
            if rank in self.by_rank:
                by_reason.setdefault(self.by_rank[rank].text or "unknown", []).append(rank)
        common = sorted(by_reason.items(), key=lambda entry: -len(entry[1]))[:SHOWN_REASONS]
        return "; ".join(f"{ranks_text(members)}: {why}" for why, members in common)

    @property
    def cells(self) -> int:
        """Cell count, for the live-state limit."""
        return len(self.by_rank)
