"""The cases: every fault and every awkward healthy run, for several seeds.

The seed chooses the fault's ranks, step and size. Even seeds are for tuning, odd ones are
reported.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from stepwatch.collector.detect.finding import NO_RANK
from stepwatch.signals.names import Cause, FindingKind

from .plan import Plan
from .scoring import Truth

FAULT_SEEDS = range(4)
HEALTHY_SEEDS = range(8)
HALVES = ("tune", "report")


class Case(NamedTuple):
    """One run and its truth; a `truth` of None is a healthy run."""

    name: str
    seed: int
    plan: Plan
    truth: Truth | None

    @property
    def half(self) -> str:
        """The half that the case belongs to."""
        return HALVES[self.seed % 2]


class Draw:
    """The choices of a seed for one case."""

    def __init__(self, name: str, seed: int) -> None:
        self.name, self.seed = name, seed
        self._dice = random.Random(f"{name}/{seed}")
        self.world = 8 if seed % 4 in (2, 3) else 4
        self.rank = self._dice.randrange(self.world)
        self.step = self._dice.randrange(16, 26)

    def between(self, low: float, high: float) -> float:
        """Draw a number with two decimals."""
        return round(self._dice.uniform(low, high), 2)

    def one_of(self, options: Sequence[str]) -> str:
        """Draw one of the options."""
        return self._dice.choice(options)

    def plan(self, *faults: str, **changed: object) -> Plan:
        """Plan a run of the loop that lasts until it is ended."""
        job = f"{self.name}-{self.seed}"
        plan = Plan(job=job, world=self.world, seed=self.seed, faults=faults, steps=100_000)
        return replace(plan, **changed)  # type: ignore[arg-type]

    def fault(self, name: str, **options: object) -> str:
        """Return the text of a fault at the drawn rank and step."""
        fields = {"rank": self.rank, "step": self.step, **options}
        return f"{name}:" + ",".join(f"{key}={value}" for key, value in fields.items())


def truth(
    draw: Draw,
    kinds: FindingKind | tuple[FindingKind, ...],
    phases: str,
    causes: Cause | tuple[Cause, ...],
    ranks: frozenset[int] | None = None,
) -> Truth:
    """Return the truth of a fault at the drawn rank, or at `ranks`; blanks separate `phases`."""
    kinds = kinds if isinstance(kinds, tuple) else (kinds,)
    causes = causes if isinstance(causes, tuple) else (causes,)
    return Truth(
        draw.name,
        frozenset(kind.value for kind in kinds),
        frozenset({draw.rank}) if ranks is None else ranks,
        frozenset(phases.split()),
        frozenset(cause.value for cause in causes),
    )


PlannedRun = tuple[Plan, Truth | None]
Maker = Callable[[Draw], PlannedRun]
_TRAINER = ("--data-bytes", "1048576", "--length", "32")
"""The reference trainer with little to compute: its faults sleep."""
ANY_RANK: frozenset[int] = frozenset()


Options = Callable[[Draw], dict[str, object]]


def draw_option(name: str, low: float, high: float) -> Options:
    """Return a fault's option whose value a seed draws between `low` and `high`."""
    return lambda draw: {name: draw.between(low, high)}


def inject_fault(
    fault: str,
    kinds: FindingKind | tuple[FindingKind, ...],
    phases: str,
    cause: Cause,
    options: Options = lambda draw: {},
    ranks: frozenset[int] | None = None,
) -> Maker:
    """Return a maker of loop runs with one fault at the drawn rank and step; see `truth`."""

    def make(draw: Draw) -> PlannedRun:
        plan = draw.plan(draw.fault(fault, **options(draw)))
        return plan, truth(draw, kinds, phases, cause, ranks)

    return make


def slow_data_everywhere(draw: Draw) -> PlannedRun:
    seconds = draw.between(0.15, 0.4)
    faults = [draw.fault("slow-data", rank=rank, seconds=seconds) for rank in range(draw.world)]
    everyone = frozenset({NO_RANK})
    return draw.plan(*faults), truth(
        draw, FindingKind.DATA_STALL, "data", Cause.SLOW_DATA, everyone
    )


def stage_imbalance(draw: Draw) -> PlannedRun:
    rank = draw.rank % 4
    stage = frozenset({2, 3} if rank >= 2 else {0, 1}) | {NO_RANK}
    fault = draw.fault("stage-imbalance", rank=rank, seconds=draw.between(0.05, 0.1))
    plan = draw.plan(fault, workload="trainer", world=4, flags=_TRAINER)
    phases = "forward backward other"
    return plan, truth(draw, FindingKind.PIPELINE_BUBBLE, phases, Cause.STAGE_IMBALANCE, stage)


def checkpoint_stall(draw: Draw) -> PlannedRun:
    fault = draw.fault("checkpoint-stall", seconds=draw.between(2.5, 5.0))
    plan = draw.plan(fault, checkpoint_every=8)
    ranks = frozenset({draw.rank, NO_RANK})
    return plan, truth(draw, FindingKind.CHECKPOINT_STALL, "checkpoint", Cause.SLOW_STORAGE, ranks)


def plain(draw: Draw) -> PlannedRun:
    return draw.plan(steps=60), None


def long_first_step(draw: Draw) -> PlannedRun:
    return draw.plan(steps=40, first_seconds=draw.between(2, 4)), None


def evaluations(draw: Draw) -> PlannedRun:
    return draw.plan(steps=48, eval_every=12, eval_seconds=draw.between(0.6, 1.5)), None


def epochs(draw: Draw) -> PlannedRun:
    return draw.plan(steps=50, epoch_steps=14, epoch_seconds=draw.between(0.5, 1.2)), None


def checkpoints(draw: Draw) -> PlannedRun:
    seconds = draw.between(0.2, 0.6)
    return draw.plan(steps=50, checkpoint_every=9, checkpoint_seconds=seconds), None


def noisy_neighbour(draw: Draw) -> PlannedRun:
    return draw.plan(steps=60, neighbours=2 + draw.seed % 2), None


def rate_drop(draw: Draw) -> PlannedRun:
    return draw.plan(steps=60, rate_drop_step=draw.step), None


def pipeline(draw: Draw) -> PlannedRun:
    return draw.plan(workload="trainer", world=4, steps=24, flags=_TRAINER), None


FAULTY: dict[str, Maker] = {
    "slow-compute": inject_fault(
        "slow-compute",
        FindingKind.STRAGGLER,
        "forward",
        Cause.SLOW_COMPUTE,
        draw_option("seconds", 0.06, 0.2),
    ),
    "slow-data": inject_fault(
        "slow-data",
        (FindingKind.STRAGGLER, FindingKind.DATA_STALL),
        "data",
        Cause.SLOW_DATA,
        draw_option("seconds", 0.08, 0.3),
    ),
    "slow-data-everywhere": slow_data_everywhere,
    "intermittent": inject_fault(
        "slow-compute",
        FindingKind.STRAGGLER,
        "forward",
        Cause.SLOW_COMPUTE,
        lambda draw: {"seconds": draw.between(0.2, 0.4), "every": 3 + draw.seed % 3},
    ),
    "slow-collective": inject_fault(
        "slow-collective",
        FindingKind.SLOW_COLLECTIVE,
        "",
        Cause.SLOW_TRANSFER,
        draw_option("seconds", 0.1, 0.3),
        ANY_RANK,
    ),
    "stage-imbalance": stage_imbalance,
    "stop": inject_fault("stop", FindingKind.HANG, "", Cause.PROCESS_STOPPED),
    "gil-lock": inject_fault("gil-lock", FindingKind.HANG, "forward", Cause.INTERPRETER_BLOCKED),
    "hang": inject_fault(
        "hang", (FindingKind.PAUSE, FindingKind.HANG), "forward", Cause.NOT_ARRIVED
    ),
    "wrong-order": inject_fault("wrong-order", FindingKind.DESYNC, "", Cause.MISMATCHED_ORDER),
    "wrong-shape": inject_fault("wrong-shape", FindingKind.DESYNC, "", Cause.MISMATCHED_SHAPE),
    "kill": inject_fault("kill", FindingKind.RANK_FAILED, "", Cause.PROCESS_GONE),
    "nan-gradients": inject_fault(
        "nan-gradients", FindingKind.NON_FINITE, "backward", Cause.NON_FINITE_GRADIENT
    ),
    "flip-bit": inject_fault(
        "flip-bit",
        FindingKind.SILENT_CORRUPTION,
        "",
        Cause.REPLICA_MISMATCH,
        lambda draw: {"bit": 18 + draw.seed},
    ),
    "skewed-shard": inject_fault(
        "skewed-shard",
        FindingKind.DATA_SKEW,
        "",
        Cause.UNEVEN_SHARDS,
        draw_option("ratio", 1.4, 2.2),
    ),
    "memory-growth": inject_fault(
        "memory-growth",
        FindingKind.MEMORY_GROWTH,
        "",
        Cause.HOST_MEMORY,
        lambda draw: {"nbytes": (8 + 2 * draw.seed) << 20},
    ),
    "checkpoint-stall": checkpoint_stall,
}
"""Faults by name."""

HEALTHY: dict[str, Maker] = {
    "plain": plain,
    "long-first-step": long_first_step,
    "evaluations": evaluations,
    "epochs": epochs,
    "checkpoints": checkpoints,
    "noisy-neighbour": noisy_neighbour,
    "rate-drop": rate_drop,
    "pipeline": pipeline,
}
"""Awkward healthy runs by name."""


def cases() -> Iterator[Case]:
    """Yield all cases on the host, faults and healthy runs, seed by seed."""
    return cases_of((FAULTY, FAULT_SEEDS), (HEALTHY, HEALTHY_SEEDS))


def cases_of(*families: tuple[Mapping[str, Maker], Sequence[int]]) -> Iterator[Case]:
    """Yield the cases that the named makers make, for each seed."""
    for makers, seeds in families:
        for seed in seeds:
            for name, make in makers.items():
                yield Case(name, seed, *make(Draw(name, seed)))
