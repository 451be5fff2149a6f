"""Finds what can be watched in a model and a pipeline schedule, and on which torch path."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .collectives.calls import calls
from .collectives.ddp import watch_ddp
from .collectives.fsdp2 import watch_fsdp2
from .collectives.process_groups import has_distributed, has_group_hooks, watch_process_groups
from .pipeline.schedule_hooks import watch_schedule

if TYPE_CHECKING:
    from .watch import Watch


def attach_all(watch: Watch, model: Any, schedule: Any) -> None:
    """Attach the collectives and the pipeline.

    Process-group hooks (torch >= 2.14) see every collective; older releases have FSDP2's custom
    communication classes and the functions that a trainer calls by name. With hooks, those classes
    time only what a hook cannot see the end of. A collective counts once: a hook leaves out what is
    timed around it.
    """
    hooked = has_group_hooks()
    if hooked:
        watch_process_groups(watch)
    if model is not None:
        for module in _modules(model):
            watch_fsdp2(watch, module, hooked=hooked)
            watch_ddp(watch, module)
        for root in _roots(model):
            watch.digests.follow(root)
    if schedule is not None:
        watch_schedule(watch, schedule)
    if has_distributed() and not hooked:
        calls().follow(watch)


def _modules(model: Any) -> Iterable[Any]:
    for root in _roots(model):
        yield from root.modules()


def _roots(model: Any) -> list[Any]:
    return list(model) if isinstance(model, list | tuple) else [model]
