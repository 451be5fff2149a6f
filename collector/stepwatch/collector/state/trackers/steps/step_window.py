"""The newest steps of one attempt as arrays over (step, rank): what detectors look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, Self, TypeVar

import numpy as np

from stepwatch.collector.state.folding.rows import chosen
from stepwatch.signals.arrays import Integers, Mask, MaskMatrix
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import PHASE_NAMES
from stepwatch.signals.wire import Rows

T = TypeVar("T")

_SMALL = 1 << 14
"""Cells of a window up to which to take out a whole plane, which is kept, costs less than to take
out some steps of it each time that somebody asks."""

MAX_CELLS = 1 << 22
MAX_STEPS, LEAST_STEPS = 512, 32
COLUMNS = ("duration", *PHASE_NAMES, "collective", "pipeline_wait")
"""Planes of a window in seconds; NaN where nothing was received."""
WORK = ("data", "forward", "backward", "optimizer", "other")
"""Phases of a rank's self time."""
MAX_STAGES = 256
"""Beyond any pipeline that is run; more are taken for a mistake."""
VALUES = ("tokens", "loss", "grad_norm")
"""Planes of a window that hold what a rank recorded, as it stands; NaN where unknown."""
IDLE = tuple(f"{name}_idle" for name in PHASE_NAMES)
"""Planes in seconds: the part of a phase in which the device had nothing enqueued ahead."""
DEVICE_COLUMNS = (*COLUMNS, *IDLE, "host_lead", "clock_error")
"""Planes that the device's clock fills; those that are not among `COLUMNS` are NaN on the host's.
"""
_PLANES = (*COLUMNS, *VALUES)
_ALL_PLANES = frozenset((*DEVICE_COLUMNS, *VALUES))

StepClock = Literal["device", "host"]
"""Which clock times the steps: timing events on the compute stream, or the host's."""
DEVICE: StepClock = "device"
HOST: StepClock = "host"

Matrix = np.ndarray[tuple[int, int], np.dtype[np.float32]]


class Window(NamedTuple):
    """Steps in rising order; `planes` maps each of `DEVICE_COLUMNS` and `VALUES` to an array
    (steps, ranks).

    `flags` (steps, ranks) holds `records.StepFlag`; `stage` (ranks,) the pipeline stage, -1 while
    unknown. All durations are on one `clock`; on the device's a step that the device of a rank has
    not finished, or that it did not time, is NaN there. Steps of which a device timed the length
    alone are not in it.
    """

    steps: np.ndarray[tuple[int], np.dtype[np.int64]]
    planes: Mapping[str, Matrix]
    flags: np.ndarray[tuple[int, int], np.dtype[np.uint16]]
    stage: np.ndarray[tuple[int], np.dtype[np.int16]]
    clock: StepClock = HOST

    def plane(self, name: str, chosen: Integers) -> Matrix:
        """Some of the steps of one plane: `planes[name][chosen]`, without the others."""
        planes = self.planes
        if isinstance(planes, RingPlanes) and self.flags.size > _SMALL and not planes.is_read(name):
            return planes.select(chosen)[name]
        return planes[name][chosen]

    def at(self, chosen: Integers | Mask) -> Window:
        """Some of the steps: positions of rows, or a mask (steps,)."""
        planes = self.planes
        cut: Mapping[str, Matrix]
        if isinstance(planes, RingPlanes):
            cut = planes.select(chosen)
        else:
            cut = {name: plane[chosen] for name, plane in planes.items()}
        return self._replace(steps=self.steps[chosen], planes=cut, flags=self.flags[chosen])


class Cut(NamedTuple):
    """Cells of some steps in planes of a ring: their slots (steps,), and what is not known of them
    (steps, ranks), None where all is."""

    slots: Integers
    missing: MaskMatrix | None


class RingPlanes(Mapping[str, Matrix]):
    """Planes (steps, ranks) by name, each taken out of its ring when it is read first.

    A plane of 128 steps of 16,384 ranks has 8 MB, and most readers want a few planes of a few
    steps. They are to be read before the ring takes more steps.

    Args:
        sources: planes of a ring by name, with the cells that are wanted of them.
        steps: how many steps they are.
        ranks: how many ranks; names of `DEVICE_COLUMNS` without a source are unknown.
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
        """Whether all of a plane was taken out."""
        return name in self._read

    def once(self, key: object, make: Callable[[], T]) -> T:
        """What `make` returns; it is asked the first time only. `key` tells it from others."""
        if key not in self._made:
            self._made[key] = make()
        result: T = self._made[key]
        return result

    def select(self, chosen: Integers | Mask) -> RingPlanes:
        """Some of the steps: positions of rows, or a mask (steps,)."""
        cuts: dict[int, Cut] = {}
        for _, cut in self._sources.values():
            missing = None if cut.missing is None else cut.missing[chosen]
            cuts.setdefault(id(cut), Cut(cut.slots[chosen], missing))
        sources = {name: (plane, cuts[id(cut)]) for name, (plane, cut) in self._sources.items()}
        return RingPlanes(sources, len(np.arange(self._steps)[chosen]), self._ranks)


def unknown(steps: int, ranks: int) -> Matrix:
    """A plane of NaN that takes no room and cannot be written."""
    return np.broadcast_to(np.float32(np.nan), (steps, ranks))


def seconds_of(rows: Rows, name: str) -> np.ndarray[tuple[int], np.dtype[np.floating]]:
    """Seconds (rows,) of one of `COLUMNS` in STEP or DEVICE_STEP rows."""
    if f"{name}_seconds" in (rows.dtype.names or ()):
        return np.asarray(rows[f"{name}_seconds"])
    return np.asarray(rows[f"{name}_ns"] / NANOSECONDS)


def nanoseconds_of(rows: Rows, name: str) -> np.ndarray[tuple[int], np.dtype[np.integer]]:
    """Nanoseconds (rows,) of one of `COLUMNS` in STEP or DEVICE_STEP rows that know it."""
    if f"{name}_ns" in (rows.dtype.names or ()):
        return np.asarray(rows[f"{name}_ns"])
    return np.asarray(np.rint(rows[f"{name}_seconds"].astype(np.float64) * NANOSECONDS)).astype(
        np.int64
    )


class CellRing:
    """Keeps the newest steps of `world` ranks in preallocated planes `names`, at most `most_cells`
    (step, rank) cells of each."""

    names: tuple[str, ...] = ()
    most_cells = MAX_CELLS

    def __init__(self, world: int) -> None:
        self.world = world
        self.depth = self.depth_for(world)
        shape = (self.depth, world)
        self.newest = -1
        """The newest step that any rank reported; -1 before the first."""
        self._step = np.full(shape, -1, dtype=np.int64)
        self._flags = np.zeros(shape, dtype=np.uint16)
        self._planes = {name: np.full(shape, np.nan, dtype=np.float32) for name in self.names}

    @classmethod
    def depth_for(cls, world: int) -> int:
        """Steps that it keeps of so many ranks."""
        return int(np.clip(cls.most_cells // max(world, 1), LEAST_STEPS, MAX_STEPS))

    @classmethod
    def reach_for(cls, world: int) -> int:
        """How far behind the newest step a step may be when it is settled for evidence to take it:
        less than it keeps, so that some steps can follow before one is lost."""
        depth = cls.depth_for(world)
        return depth - depth // 4

    @property
    def cells(self) -> int:
        """(step, rank) cells held."""
        return self.depth * self.world

    def grown(self, world: int) -> Self:
        """A ring for more ranks that knows what this one knows."""
        larger = type(self)(world)
        larger.newest = self.newest
        slots, ranks = np.nonzero(self._step >= 0)
        steps = self._step[slots, ranks]
        order = np.argsort(steps, kind="stable")  # of two steps in one slot the newer one stays
        slots, ranks, steps = slots[order], ranks[order], steps[order]
        places = (steps % larger.depth, ranks)
        larger._step[places] = steps
        larger._flags[places] = self._flags[slots, ranks]
        for name, plane in self._planes.items():
            larger._planes[name][places] = plane[slots, ranks]
        return larger

    def add(self, rows: Rows) -> Rows:
        """Take rows of ranks below `world`; returns those that were new to their rank.

        A row that is `depth` steps older than the newest of its own rank counts as repeated. A rank
        that is late, by however much, is new: a window leaves out what is too old for it.
        """
        return chosen(rows, self.add_all(rows, np.zeros(len(rows), dtype=np.int64)))

    def add_all(self, rows: Rows, origin: Integers) -> Integers:
        """Take rows of several batches, `origin` (rows,) rising; returns where the new ones are.

        These come batch by batch, in each by rank and step. The steps of several batches span less
        than `depth`.
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
        """The `count` steps up to `last`, as far as it reaches back."""
        return np.arange(max(0, last - min(count, self.depth) + 1), last + 1, dtype=np.int64)

    def holds(self, steps: Integers) -> MaskMatrix:
        """Which (steps, ranks) it holds."""
        return np.asarray(self._step[steps % self.depth] == steps[:, None])

    def cells_of(
        self, steps: Integers, is_held: MaskMatrix, names: Iterable[str]
    ) -> dict[str, tuple[Matrix, Cut]]:
        """The columns `names` with the cells of these steps, of which some are `is_held`."""
        cut = Cut(steps % self.depth, None if is_held.all() else ~is_held)
        return {name: (self._planes[name], cut) for name in names}


class StepRing(CellRing):
    """STEP rows: the host's clock, and what the ranks recorded."""

    names = _PLANES

    def window(
        self,
        count: int,
        stage: np.ndarray[tuple[int], np.dtype[np.int16]],
        device: DeviceRing | None = None,
    ) -> Window:
        """The newest `count` steps that any rank reported, on the host's clock.

        With `device`, on the clock of the devices, up to the newest step that one has finished.
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
    """A cell has half as many bytes more than one of a `StepRing`: 86."""

    def whole_steps(self, count: int, last: int) -> Integers:
        """The newest `count` steps up to `last`, without those that a device timed in part."""
        steps = self.steps(count, last)
        if not self.in_part(steps).any():
            return steps
        steps = self.steps(self.depth, last)
        return steps[~self.in_part(steps).any(axis=1)][-count:]

    def in_part(self, steps: Integers) -> MaskMatrix:
        """Of which (steps, ranks) it holds the length alone."""
        is_held = self.holds(steps)
        return np.asarray(is_held & np.isnan(self._planes["other"][steps % self.depth]))

    def timed_whole(self, steps: Integers) -> Mask:
        """Which of the steps (steps,) all devices timed, none in part."""
        return np.asarray((self.holds(steps) & ~self.in_part(steps)).all(axis=1))

    @property
    def cells(self) -> int:
        """What it holds, in cells of a `StepRing`."""
        return super().cells * 3 // 2
