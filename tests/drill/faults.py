"""The drills: a fault, the verdict that on-call must receive, and the runbook's mitigation."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple

from stepwatch.signals.names import ALERT_CHECKPOINT_UNVERIFIED, ALERT_OF, Cause, FindingKind

PAGE, TICKET, CANARY = "page", "ticket", "canary"
STEP = 25
"""Step at which faults begin: the baseline is complete before it."""
RANKS = 4
_K, _C = FindingKind, Cause


class Mitigation(StrEnum):
    """A runbook's mitigation, as far as one machine can apply it."""

    RESTART = "restart"
    CONTINUE = "continue"
    MEND = "mend"


class Expectation(NamedTuple):
    """An incident of one of `kinds` with one of `causes` at one of `ranks` (empty: any), and its
    severity. `alert` must arrive where no incident opens.
    """

    kinds: frozenset[FindingKind]
    causes: frozenset[Cause]
    severity: str
    ranks: frozenset[int] = frozenset()
    alert: str = ""

    def fits(self, incident: Mapping[str, Any]) -> bool:
        """Return whether an incident of the API has one of these kinds, whatever its cause and
        rank."""
        return incident["kind"] in {kind.value for kind in self.kinds}

    def matches(self, incident: Mapping[str, Any]) -> bool:
        """Return whether the incident has the right cause and rank, too."""
        cause = incident["cause"] in {cause.value for cause in self.causes}
        return cause and self.fits(incident) and (not self.ranks or incident["rank"] in self.ranks)

    @property
    def alerts(self) -> frozenset[str]:
        """Alerts, one of which must arrive."""
        return frozenset({self.alert} if self.alert else {ALERT_OF[kind] for kind in self.kinds})


class Drill(NamedTuple):
    """Faults in the trainer's syntax, or the name of one outside the trainer, and their expected
    verdicts; with several faults, the first verdict at least must arrive.
    """

    name: str
    faults: tuple[str, ...]
    expectations: tuple[Expectation, ...]
    flags: tuple[str, ...] = ()
    outside: str = ""
    mitigation: Mitigation = Mitigation.RESTART
    job: str = ""
    job_class: str = "production"

    @property
    def job_name(self) -> str:
        """The job that has the fault."""
        return self.job or "drill-" + self.name.replace(" + ", "-and-")


def _expectation(
    kinds: tuple[FindingKind, ...], causes: tuple[Cause, ...], severity: str, rank: int | None
) -> Expectation:
    ranks = frozenset() if rank is None else frozenset({rank})
    return Expectation(frozenset(kinds), frozenset(causes), severity, ranks)


def _drill(
    fault: str, kinds: tuple[FindingKind, ...], causes: tuple[Cause, ...],
    severity: str = TICKET, rank: int | None = 2, flags: tuple[str, ...] = (),
    mitigation: Mitigation = Mitigation.RESTART,
) -> Drill:  # fmt: skip
    name, _, options = fault.partition(":")
    text = f"{name}:rank=2,step={STEP}{',' + options if options else ''}"
    expectations = (_expectation(kinds, causes, severity, rank),)
    return Drill(name, (text,), expectations, flags, mitigation=mitigation)


def _outside(
    name: str, kinds: tuple[FindingKind, ...], causes: tuple[Cause, ...],
    severity: str = TICKET, rank: int | None = None, flags: tuple[str, ...] = (),
    mitigation: Mitigation = Mitigation.MEND, faults: tuple[str, ...] = (),
) -> Drill:  # fmt: skip
    expectations = (_expectation(kinds, causes, severity, rank),)
    return Drill(name, faults, expectations, flags, name, mitigation)


_EVERY_EIGHT = ("--checkpoint-every", "8")
_SHARDED = ("--mesh", "dp_shard=4")
_REPLICAS = ("--mesh", "dp_replicate=4")
_SLOW = f"step={STEP},seconds=0.3"

TICKETS = (
    _drill("slow-compute:seconds=0.3", (_K.STRAGGLER,), (_C.SLOW_COMPUTE,)),
    _drill("slow-data:seconds=0.6", (_K.STRAGGLER, _K.DATA_STALL), (_C.SLOW_DATA,)),
    Drill(
        "data-stall",
        tuple(f"slow-data:rank={rank},step={STEP},seconds=1" for rank in range(RANKS)),
        (_expectation((_K.DATA_STALL,), (_C.SLOW_DATA,), TICKET, None),),
    ),
    _drill("slow-collective:seconds=0.4", (_K.SLOW_COLLECTIVE,), (_C.SLOW_TRANSFER,), rank=None),
    _drill("stage-imbalance:seconds=0.3", (_K.PIPELINE_BUBBLE,), (_C.STAGE_IMBALANCE,), rank=None),
    _drill("checkpoint-stall:seconds=5", (_K.CHECKPOINT_STALL,), (_C.SLOW_STORAGE,),
           flags=_EVERY_EIGHT),
    _drill("memory-growth:nbytes=67108864", (_K.MEMORY_GROWTH,), (_C.HOST_MEMORY,)),
    _drill("kill", (_K.RANK_FAILED,), (_C.PROCESS_GONE,)),
    _outside("slow-link", (_K.SLOW_COLLECTIVE,), (_C.SLOW_TRANSFER, _C.NIC_ERRORS),
             flags=_SHARDED),
    _outside("hot-device", (_K.STRAGGLER,), (_C.THERMAL_THROTTLE,), rank=2,
             faults=(f"slow-compute:rank=2,{_SLOW}",), mitigation=Mitigation.RESTART),
    _outside("xid", (_K.NODE_FAULT,), (_C.XID,), rank=3, mitigation=Mitigation.RESTART),
    _outside("xid-kills", (_K.RANK_FAILED,), (_C.XID, _C.DEVICE_LOST), rank=3,
             mitigation=Mitigation.RESTART),
    _outside("driver-hangs", (_K.NODE_FAULT,), (_C.DRIVER_HANGS,)),
    _drill("hang", (_K.HANG,), (_C.NOT_ARRIVED, _C.BUSY))._replace(
        name="hang-experiment", job_class="experiment"
    ),
)  # fmt: skip
"""Faults that wait for office hours."""

PAGES = (
    _drill("hang", (_K.HANG,), (_C.NOT_ARRIVED, _C.BUSY), PAGE),
    _drill("gil-lock", (_K.HANG,), (_C.INTERPRETER_BLOCKED,), PAGE),
    _drill("stop", (_K.HANG,), (_C.PROCESS_STOPPED,), PAGE, mitigation=Mitigation.CONTINUE),
    _drill("wrong-shape", (_K.DESYNC,), (_C.MISMATCHED_SHAPE,), PAGE),
    _drill("nan-gradients", (_K.NON_FINITE,), (_C.NON_FINITE_GRADIENT, _C.NON_FINITE_LOSS), PAGE),
    _drill("flip-bit", (_K.SILENT_CORRUPTION,), (_C.REPLICA_MISMATCH,), PAGE, flags=_REPLICAS),
    _outside("agent-gone", (_K.TELEMETRY_LOST,), (_C.NODE_STALE,), PAGE),
    _outside("node-lost", (_K.RANK_FAILED, _K.HANG), (_C.NODE_LOST,), PAGE,
             mitigation=Mitigation.RESTART),
    _outside("link-cut", (_K.HANG,), (_C.NOT_ARRIVED, _C.UNKNOWN), PAGE,
             mitigation=Mitigation.RESTART),
    Drill("checkpoints-fail", (), (Expectation(frozenset(), frozenset(), PAGE, frozenset(),
          ALERT_CHECKPOINT_UNVERIFIED),), _EVERY_EIGHT, "full-disk", Mitigation.MEND),
)  # fmt: skip
"""Faults that page."""

SINGLE = (*TICKETS, *PAGES)
DRILLS_BY_NAME = {drill.name: drill for drill in SINGLE}


def _pair(first: Drill, second: Drill) -> Drill:
    return Drill(
        f"{first.name} + {second.name}",
        (*first.faults, *(fault.replace("rank=2", "rank=1") for fault in second.faults)),
        (first.expectations[0], second.expectations[0]._replace(ranks=frozenset({1}))),
        tuple(dict.fromkeys((*first.flags, *second.flags))),
    )


_PAIR_ORDER = ("slow-compute", "slow-data", "checkpoint-stall", "memory-growth", "slow-collective",
           "hang", "gil-lock", "stop", "kill", "nan-gradients", "slow-compute")  # fmt: skip
PAIRS = tuple(
    _pair(DRILLS_BY_NAME[first], DRILLS_BY_NAME[second]) for first, second in pairwise(_PAIR_ORDER)
)
"""Ten pairs: each fault with the next, on two ranks of two nodes."""
SHORT = tuple(DRILLS_BY_NAME[name] for name in ("slow-compute", "hang"))
"""Drills in the tests: the second runs every time, the first in the matrix."""
