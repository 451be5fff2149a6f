"""Causes of device-time: each device-second belongs to exactly one."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class Spent(StrEnum):
    """Use of allocated device-time, in report order."""

    PRODUCTIVE = "productive"
    START_UP = "start-up"
    REDONE = "redone-after-restart"
    STALL = "stall"
    STRAGGLING = "straggling"
    EXPOSED_COMMUNICATION = "exposed-communication"
    BUBBLE = "bubble"
    DATA_WAIT = "data-wait"
    CHECKPOINT_STALL = "checkpoint-stall"
    EVALUATION = "evaluation"
    IDLE_ALLOCATED = "idle-allocated"
    UNKNOWN = "unknown"


CAUSES: tuple[Spent, ...] = tuple(Spent)


class Definition(NamedTuple):
    """A cause's meaning, its formula, and its pitfall."""

    what: str
    formula: str
    trap: str = ""


DEFINITIONS: Mapping[Spent, Definition] = {
    Spent.PRODUCTIVE: Definition(
        "forward, backward, optimizer and other work in kept steps",
        "step time of all ranks - data - collectives - pipeline waits",
        "collectives that no hook sees are in it",
    ),
    Spent.START_UP: Definition(
        "from an attempt's start to its first step, and that step's excess over a usual one",
        "(end of the first step - start) x ranks - a usual step x ranks",
        "where no start was received, it begins with the first step",
    ),
    Spent.REDONE: Definition(
        "steps that a later attempt does again, all of their time",
        "allocated time of steps from the one on that was resumed at",
        "known only at the resume: productive time then becomes redone time",
    ),
    Spent.STALL: Definition(
        "nothing moved: hangs, and pauses that no hook marks",
        "the excess of a step, or of a gap beside it, over 8 usual steps and 5 s",
        "a pause that a hook marks is an evaluation or a checkpoint, however long",
    ),
    Spent.STRAGGLING: Definition(
        "waiting in collectives for ranks that arrive late",
        "collectives of all ranks - ranks x that of the rank that waits least",
        "ranks that are late in turns, within a step, count as communication",
    ),
    Spent.EXPOSED_COMMUNICATION: Definition(
        "transfers that no work hides",
        "ranks x time in collectives of the rank that waits least",
    ),
    Spent.BUBBLE: Definition(
        "waiting for pipeline neighbours", "pipeline waits of all ranks", "the ideal is not 0"
    ),
    Spent.DATA_WAIT: Definition("waiting for the next batch", "phase data of all ranks"),
    Spent.CHECKPOINT_STALL: Definition(
        "the training loop waits in a save", "phase checkpoint of all ranks"
    ),
    Spent.EVALUATION: Definition("evaluations", "phase eval of all ranks"),
    Spent.IDLE_ALLOCATED: Definition(
        "between the end of an attempt and the start of the next one",
        "(start - end of the attempt before) x ranks",
        "devices that the scheduler holds before and after the job are not seen",
    ),
    Spent.UNKNOWN: Definition(
        "ranks that did not report, and short times between steps that no record explains",
        "the rest of the allocation",
        "it is never counted as productive",
    ),
}
