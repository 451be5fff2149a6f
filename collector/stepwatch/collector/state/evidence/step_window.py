"""An attempt's newest steps as arrays over (step, rank), the input for detectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from stepwatch.collector.state.folding.rows import chosen
from stepwatch.collector.step_clocks import DEVICE, HOST, StepClock
from stepwatch.signals.arrays import Integers, Mask, MaskMatrix
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import PHASE_NAMES
from stepwatch.signals.wire import Rows

T = TypeVar("T")

_SMALL = 1 << 14
"""Window size in cells up to which a whole cached plane costs less than repeated partial reads."""

MAX_CELLS = 1 << 22
MAX_STEPS, LEAST_STEPS = 512, 32
COLUMNS = ("duration", *PHASE_NAMES, "collective", "pipeline_wait")
"""Window planes in seconds; NaN without a report."""
WORK = ("data", "forward", "backward", "optimizer", "other")
"""Phases in a rank's self time."""
MAX_STAGES = 256
"""Above any real pipeline; a larger number is invalid."""
VALUES = ("tokens", "loss", "grad_norm")
"""Window planes with recorded rank values, unchanged; NaN while unknown."""
IDLE = tuple(f"{name}_idle" for name in PHASE_NAMES)
"""Planes in seconds: the part of a phase in which the device queue was empty."""
DEVICE_COLUMNS = (*COLUMNS, *IDLE, "host_lead", "clock_error")
"""Planes on the device clock; planes outside `COLUMNS` are NaN on the host clock."""
_PLANES = (*COLUMNS, *VALUES)
_ALL_PLANES = frozenset((*DEVICE_COLUMNS, *VALUES))

Matrix = np.ndarray[tuple[int, int], np.dtype[np.float32]]


class Window(NamedTuple):
    """Steps in rising order; `planes` maps each of `DEVICE_COLUMNS` and `VALUES` to (steps, ranks).

    `flags` (steps, ranks) holds `records.StepFlag`, `stage` (ranks,) the pipeline stage, -1 while
    unknown. All durations are on one `clock`. On the device clock, a step is NaN for a rank whose
    device has not finished or not timed it; steps with only their length timed are left out.
    """

    steps: np.ndarray[tuple[int], np.dtype[np.int64]]
    planes: Mapping[str, Matrix]
    flags: np.ndarray[tuple[int, int], np.dtype[np.uint16]]
    stage: np.ndarray[tuple[int], np.dtype[np.int16]]
    clock: StepClock = HOST

    def plane(self, name: str, chosen: Integers) -> Matrix:
        """Return some steps from one plane: `planes[name][chosen]`, without reading the others."""
        planes = self.planes
        if isinstance(planes, RingPlanes) and self.flags.size > _SMALL and not planes.is_read(name):
            return planes.select(chosen)[name]
        return planes[name][chosen]

    def select(self, chosen: Integers | Mask) -> Window:
        """Return some steps: row positions, or a mask (steps,)."""
        planes = self.planes
        cut: Mapping[str, Matrix]
        if isinstance(planes, RingPlanes):
            cut = planes.select(chosen)
        else:
            cut = {name: plane[chosen] for name, plane in planes.items()}
        return self._replace(steps=self.steps[chosen], planes=cut, flags=self.flags[chosen])


class Cut(NamedTuple):
    """A selection in a ring's planes: slots (steps,), and missing cells (steps, ranks) or None."""

    slots: Integers
    missing: MaskMatrix | None


class RingPlanes(Mapping[str, Matrix]):
    """Planes (steps, ranks) by name, each read from its ring on first access.

    A plane for 128 steps and 16,384 ranks takes 8 MB, and most readers need a few planes for a few
    steps. Read them before the ring takes more steps.

    Args:
        sources: ring planes by name, with the selected cells.
        steps: step count.
        ranks: rank count; `DEVICE_COLUMNS` names without a source are unknown.
    """

    def __init__(self, sources: Mapping[str, tuple[Matrix, Cut]], steps: int, ranks: int) -> None:
        self._sources = sources
        self._steps, self._ranks = steps, ranks
        self._read: dict[str, Matrix] = {}
        self._made: dict[object, Any] = {}

    def __getitem__(self, name: str) -> Matrix:
        if name not in self._read:
            self._read[name] = self._extract(name)
        return self._read[name]

    def _extract(self, name: str) -> Matrix:
        if name not in _ALL_PLANES:
            raise KeyError(name)
        if name not in self._sources:
            return unknown(self._steps, self._ranks)
        plane, cut = self._sources[name]
        cells = plane[cut.slots]
        if cut.missing is not None:
            cells[cut.missing] = np.nan
        return cells

    def __iter__(self) -> Iterator[str]:
        return iter(_ALL_PLANES)

    def __len__(self) -> int:
        return len(_ALL_PLANES)

    def is_read(self, name: str) -> bool:
        """Return whether the whole plane was read."""
        return name in self._read

    def once(self, key: object, make: Callable[[], T]) -> T:
        """Return the result from `make`, cached under `key`."""
        if key not in self._made:
            self._made[key] = make()
        result: T = self._made[key]
        return result

    def select(self, chosen: Integers | Mask) -> RingPlanes:
        """Return some steps: row positions, or a mask (steps,)."""
        cuts: dict[int, Cut] = {}
        for _, cut in self._sources.values():
            missing = None if cut.missing is None else cut.missing[chosen]
            cuts.setdefault(id(cut), Cut(cut.slots[chosen], missing))
        sources = {name: (plane, cuts[id(cut)]) for name, (plane, cut) in self._sources.items()}
        return RingPlanes(sources, len(np.arange(self._steps)[chosen]), self._ranks)


def unknown(steps: int, ranks: int) -> Matrix:
    """Return a read-only NaN plane that takes no memory."""
    return np.broadcast_to(np.float32(np.nan), (steps, ranks))


def seconds_of(rows: Rows, name: str) -> np.ndarray[tuple[int], np.dtype[np.floating]]:
    """Return the seconds (rows,) for one of `COLUMNS` in STEP or DEVICE_STEP rows."""
    if f"{name}_seconds" in (rows.dtype.names or ()):
        return np.asarray(rows[f"{name}_seconds"])
    return np.asarray(rows[f"{name}_ns"] / NANOSECONDS)


def nanoseconds_of(rows: Rows, name: str) -> np.ndarray[tuple[int], np.dtype[np.integer]]:
    """Return the nanoseconds (rows,) for one of `COLUMNS` in STEP or DEVICE_STEP rows.

    Every row must have a value.
    """
    if f"{name}_ns" in (rows.dtype.names or ()):
        return np.asarray(rows[f"{name}_ns"])
    return np.asarray(np.rint(rows[f"{name}_seconds"].astype(np.float64) * NANOSECONDS)).astype(
        np.int64
    )


class CellRing:
    """The newest steps of `world` ranks in preallocated planes `names`.

    Each plane has at most `most_cells` (step, rank) cells.
    """

    names: tuple[str, ...] = ()
    most_cells = MAX_CELLS

    def __init__(self, world: int) -> None:
        self.world = world
        self.depth = self.depth_for(world)
        shape = (self.depth, world)
        self.newest = -1
        """Newest step that any rank reported; -1 before the first."""
        self._step = np.full(shape, -1, dtype=np.int64)
        self._flags = np.zeros(shape, dtype=np.uint16)
        self._planes = {name: np.full(shape, np.nan, dtype=np.float32) for name in self.names}

    @classmethod
    def depth_for(cls, world: int) -> int:
        """Return the number of steps kept for `world` ranks."""
        return min(max(cls.most_cells // max(world, 1), LEAST_STEPS), MAX_STEPS)

    @classmethod
    def reach_for(cls, world: int) -> int:
        """Return how far behind the newest step evidence can still use a settled step.

        It is less than the depth, so some steps can follow before one is lost.
        """
        depth = cls.depth_for(world)
        return depth - depth // 4

    @property
    def cells(self) -> int:
        """(step, rank) cell count."""
        return self.depth * self.world

    def grown(self, world: int) -> Self:
        """Return a larger ring with the same content."""
        larger = type(self)(world)
        larger.newest = self.newest
        slots, ranks = np.nonzero(self._step >= 0)
        steps = self._step[slots, ranks]
        order = np.argsort(steps, kind="stable")  # with two steps in one slot the newer one wins
        slots, ranks, steps = slots[order], ranks[order], steps[order]
        places = (steps % larger.depth, ranks)
        larger._step[places] = steps
        larger._flags[places] = self._flags[slots, ranks]
        for name, plane in self._planes.items():
            larger._planes[name][places] = plane[slots, ranks]
        return larger

    def add(self, rows: Rows) -> Rows:
        """Add rows for ranks below `world`; returns the rows that were new to their rank.

        A row `depth` steps older than its rank's newest counts as repeated. A late rank's rows are
        new, however late: a window leaves out steps that are too old for it.
        """
        return chosen(rows, self.add_all(rows, np.zeros(len(rows), dtype=np.int64)))

    def add_all(self, rows: Rows, origin: Integers) -> Integers:
        """Add rows from several batches; returns the positions of new rows.

        `origin` (rows,) is the rising batch index. The result is in batch order, within a batch by
        rank and step. The steps must span less than `depth`.
        """
        rank, step = rows["rank"].astype(np.int64), rows["step"].astype(np.int64)
        _, firsts = np.unique(rank << 32 | step, return_index=True)  # a step has 32 bits
        fresh: Integers = firsts[self._step[step[firsts] % self.depth, rank[firsts]] < step[firsts]]
        fresh = fresh[np.argsort(origin[fresh], kind="stable")]
        rows, step = chosen(rows, fresh), step[fresh]
        places = (step % self.depth, rank[fresh])
        self._step[places] = step
        self.newest = max(self.newest, int(step.max(initial=-1)))
        self._flags[places] = rows["flags"]
        for name, plane in self._planes.items():
            plane[places] = rows[name] if name in VALUES else seconds_of(rows, name)
        return fresh

    def steps(self, count: int, last: int) -> Integers:
        """Return up to `count` steps that end with `last`, limited by the depth."""
        return np.arange(max(0, last - min(count, self.depth) + 1), last + 1, dtype=np.int64)

    def holds(self, steps: Integers) -> MaskMatrix:
        """Return which (steps, ranks) it holds."""
        return np.asarray(self._step[steps % self.depth] == steps[:, None])

    def cells_of(
        self, steps: Integers, is_held: MaskMatrix, names: Iterable[str]
    ) -> dict[str, tuple[Matrix, Cut]]:
        """Return the columns `names` with these steps' cells; `is_held` marks the valid ones."""
        cut = Cut(steps % self.depth, None if is_held.all() else ~is_held)
        return {name: (self._planes[name], cut) for name in names}


class StepRing(CellRing):
    """STEP rows: the host clock, and recorded rank values."""

    names = _PLANES

    def window(
        self,
        count: int,
        stage: np.ndarray[tuple[int], np.dtype[np.int16]],
        device: DeviceRing | None = None,
    ) -> Window:
        """Return the newest `count` reported steps on the host clock.

        With `device` they are on the device clock, up to the newest step that one has finished.
        """
        last = self.newest if device is None else min(self.newest, device.newest)
        steps = self.steps(count, last) if device is None else device.whole_steps(count, last)
        is_held = self.holds(steps)
        reported = is_held.any(axis=1)
        steps, is_held = steps[reported], is_held[reported]
        flags = np.where(is_held, self._flags[steps % self.depth], 0)
        if device is None:
            planes = RingPlanes(self.cells_of(steps, is_held, _PLANES), *is_held.shape)
            return Window(steps, planes, flags, stage)
        timed = device.cells_of(steps, device.holds(steps), DEVICE_COLUMNS)
        planes = RingPlanes(self.cells_of(steps, is_held, VALUES) | timed, *is_held.shape)
        return Window(steps, planes, flags, stage, DEVICE)


class DeviceRing(CellRing):
    """DEVICE_STEP rows: the clock of the ranks' devices."""

    names = DEVICE_COLUMNS
    most_cells = MAX_CELLS // 2
    """A cell has 86 bytes, half as many more than in a `StepRing`."""

    def whole_steps(self, count: int, last: int) -> Integers:
        """Return the newest `count` steps up to `last`, without partially timed ones."""
        steps = self.steps(count, last)
        if not self.in_part(steps).any():
            return steps
        steps = self.steps(self.depth, last)
        return steps[~self.in_part(steps).any(axis=1)][-count:]

    def in_part(self, steps: Integers) -> MaskMatrix:
        """Return the (steps, ranks) with only the length timed."""
        is_held = self.holds(steps)
        return np.asarray(is_held & np.isnan(self._planes["other"][steps % self.depth]))

    def timed_whole(self, steps: Integers) -> Mask:
        """Return which steps (steps,) all devices timed completely."""
        return np.asarray((self.holds(steps) & ~self.in_part(steps)).all(axis=1))

    @property
    def cells(self) -> int:
        """Cell count, in `StepRing` cells."""
        return super().cells * 3 // 2
