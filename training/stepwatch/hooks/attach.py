"""Finds the parts to watch in a model, its optimizers and a schedule, on any torch release."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stepwatch.signals.records import LifecycleEvent

from .collectives.calls import calls
from .collectives.ddp import watch_ddp
from .collectives.fsdp2 import watch_fsdp2
from .collectives.process_groups import has_distributed, has_group_hooks, watch_process_groups
from .instruments import Instruments
from .optimizers import watch_optimizer
from .pipeline.schedule_hooks import watch_schedule
from .pipeline.schedule_simulator import schedule_bubble, schedule_name
from .recorder.recorder import Recorder


def attach_all(instruments: Instruments, model: Any, optimizer: Any, schedule: Any) -> None:
    """Attach the collectives, the optimizers and the pipeline; the caller's thread trains.

    Process-group hooks (torch >= 2.14) see every collective; older releases have FSDP2's custom
    communication classes. With hooks, those classes time only operations whose end a hook cannot
    see. Functions that a trainer calls by name, and its waits, are timed on each release. A
    collective counts once: a hook leaves out operations that are timed around it.
    """
    recorder = instruments.recorder
    recorder.adopt_thread()
    recorder.settle()
    recorder.server.start()
    instruments.pauses.start()
    hooked = has_group_hooks()
    if hooked:
        watch_process_groups(instruments)
    for root in _listed(model):
        instruments.device.follow(root)
        for module in root.modules():
            watch_fsdp2(instruments, module, hooked=hooked)
            watch_ddp(instruments, module)
        instruments.pauses.follow(root)
        instruments.phases.follow(root)
        instruments.digests.follow(root)
    for entry in _listed(optimizer):
        evaluation, rates = instruments.pauses.evaluation, instruments.learning_rates
        watch_optimizer(recorder, evaluation, rates, instruments.replica_updates, entry)
        instruments.pauses.follow_optimizer(entry)
    if schedule is not None:
        watch_schedule(instruments, schedule)
    if has_distributed():
        calls().follow(instruments)
    if schedule is not None:
        report_schedule(recorder, schedule)


def report_schedule(recorder: Recorder, schedule: Any) -> None:
    """Write `schedule`'s name and its unavoidable bubble, in millionths; -1 unknown.

    Raises:
        ValueError: the schedule never ends.
    """
    bubble = schedule_bubble(schedule)
    millionths = -1 if bubble is None else round(bubble * 1e6)
    recorder.write_lifecycle(LifecycleEvent.SCHEDULE, millionths, schedule_name(schedule))


def _listed(members: Any) -> Iterable[Any]:
    if members is None:
        return ()
    return members if isinstance(members, list | tuple) else (members,)
