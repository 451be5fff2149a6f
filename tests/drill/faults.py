"""What is drilled: a fault, and what the on-call must learn of it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from stepwatch.signals.names import Cause, FindingKind

PAGE, TICKET = "page", "ticket"
STEP = 25
"""Step at which faults begin: the baseline of a run is known by then."""


class Expected(NamedTuple):
    """An incident of one of `kinds`, whose alerts must arrive, because of one of `causes` at one of
    `ranks` (empty: any)."""

    kinds: frozenset[FindingKind]
    causes: frozenset[Cause]
    severity: str
    ranks: frozenset[int] = frozenset()

    def fits(self, incident: Mapping[str, Any]) -> bool:
        """Whether an incident of the API is of this kind, whatever its cause and rank."""
        return incident["kind"] in {kind.value for kind in self.kinds}

    def is_right(self, incident: Mapping[str, Any]) -> bool:
        """Whether it has the right cause and rank, too."""
        cause = incident["cause"] in {cause.value for cause in self.causes}
        return cause and (not self.ranks or incident["rank"] in self.ranks)


class Drill(NamedTuple):
    """Faults as the trainer's option has them, and what they must lead to; of a pair, either."""

    name: str
    faults: tuple[str, ...]
    expected: tuple[Expected, ...]
    flags: tuple[str, ...] = ()


def _one(
    fault: str, kinds: tuple[FindingKind, ...], causes: tuple[Cause, ...],
    severity: str = TICKET, rank: int | None = 2, flags: tuple[str, ...] = (),
) -> Drill:  # fmt: skip
    name, _, options = fault.partition(":")
    at = f"rank=2,step={STEP}"
    text = f"{name}:{at}{',' + options if options else ''}"
    ranks = frozenset() if rank is None else frozenset({rank})
    return Drill(name, (text,), (Expected(frozenset(kinds), frozenset(causes), severity, ranks),),
                 flags)  # fmt: skip


_K, _C = FindingKind, Cause
_EVERY_EIGHT = ("--checkpoint-every", "8")

SINGLE = (
    _one("slow-compute:seconds=0.3", (_K.STRAGGLER,), (_C.SLOW_COMPUTE,)),
    _one("slow-data:seconds=0.6", (_K.STRAGGLER, _K.DATA_STALL), (_C.SLOW_DATA,)),
    _one("slow-collective:seconds=0.4", (_K.SLOW_COLLECTIVE,), (_C.SLOW_TRANSFER,), rank=None),
    _one("skewed-shard:ratio=2.5", (_K.DATA_SKEW,), (_C.UNEVEN_SHARDS,)),
    _one("checkpoint-stall:seconds=5", (_K.CHECKPOINT_STALL,), (_C.SLOW_STORAGE,),
         flags=_EVERY_EIGHT),
    _one("memory-growth:nbytes=67108864", (_K.MEMORY_GROWTH,), (_C.HOST_MEMORY,)),
    _one("hang", (_K.HANG,), (_C.NOT_ARRIVED, _C.BUSY, _C.UNKNOWN), PAGE),
    _one("gil-lock", (_K.HANG,), (_C.INTERPRETER_BLOCKED, _C.NOT_ARRIVED), PAGE),
    _one("stop", (_K.HANG,), (_C.PROCESS_STOPPED,), PAGE),
    _one("kill", (_K.RANK_FAILED,), (_C.PROCESS_GONE,)),
    _one("nan-gradients", (_K.NON_FINITE,), (_C.NON_FINITE_GRADIENT, _C.NON_FINITE_LOSS), PAGE,
         rank=None),
    _one("flip-bit", (_K.SILENT_CORRUPTION,), (_C.REPLICA_MISMATCH,), PAGE, rank=None),
    _one("stage-imbalance:seconds=0.3", (_K.PIPELINE_BUBBLE,), (_C.STAGE_IMBALANCE,), rank=None),
)  # fmt: skip
"""Each fault of the catalogue that the reference trainer can have by itself."""


def _pair(one: Drill, other: Drill) -> Drill:
    return Drill(
        f"{one.name} + {other.name}",
        (*one.faults, *(each.replace("rank=2", "rank=1") for each in other.faults)),
        (one.expected[0], other.expected[0]._replace(ranks=frozenset({1}))),
        tuple(dict.fromkeys((*one.flags, *other.flags))),
    )


PAIRS = tuple(_pair(one, other) for one, other in pairwise(SINGLE[:11]))
"""Ten pairs: each fault with the next, on two ranks of two nodes."""
SHORT = tuple(each for each in SINGLE if each.name in ("slow-compute", "hang"))
"""What is drilled with every run of the tests."""
