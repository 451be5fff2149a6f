"""Cases on the simulated device: each fault and each healthy run, for several seeds.

The seed also chooses how the loop is written. Half of the loops mark no phases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from stepwatch.signals.names import Cause, FindingKind
from tests.verdicts.cases import ANY_RANK, Case, Draw, Maker, PlannedRun, cases_of, truth
from tests.verdicts.device.work import DeviceWork
from tests.verdicts.plan import Plan

LOOPS: dict[str, dict[str, Any]] = {
    "item-each-step": {},
    "item-each-tenth": {"loss_every": 10},
    "loss-never-read": {"loss_every": 0},
    "accumulation": {"microbatches": 4, "loss_every": 10},
    "checkpointing": {"checkpointing": True, "loss_every": 10},
    "second-stream": {"second_stream": True, "loss_every": 0},
    "captured": {"captured": True},
    "fsdp2": {"fsdp2": True, "loss_every": 10, "blocks": 2},
}
"""Ways to write the loop."""
FSDP2_SECONDS, FSDP2_COLLECTIVES = 0.12, 8
"""Seconds of forward and of backward, and collectives in a step. Eight hosts on two cores need that
long to launch an FSDP2 step.
"""
FAULT_SEEDS = range(8)
HEALTHY_SEEDS = range(4)
HEALTHY_STEPS = 60


def device_plan(draw: Draw, *faults: str, loop: str = "", **work: Any) -> Plan:
    """Plan a run of a loop on the device; the seed draws the loop unless `loop` names it."""
    how = LOOPS[loop or draw.one_of(list(LOOPS))]
    marked = draw.seed % 4 in (1, 2)
    device = DeviceWork(**{"marked": marked, **how, **work})
    plan = draw.plan(*faults, workload="device", device=device)
    if not device.fsdp2:
        return plan
    return replace(plan, forward_seconds=FSDP2_SECONDS, backward_seconds=FSDP2_SECONDS)


def on_device(draw: Draw, name: str, **fields: Any) -> dict[str, Any]:
    """Return a device fault at the drawn rank and step, or at the rank in `fields`."""
    return {"name": name, "rank": draw.rank, "step": draw.step, **fields}


def slow_clock(draw: Draw) -> PlannedRun:
    fault = on_device(draw, "slow-clock", factor=draw.between(1.5, 2.5))
    plan = device_plan(draw, faults=(fault,))
    return plan, truth(draw, FindingKind.STRAGGLER, "forward backward", Cause.SLOW_COMPUTE)


def slow_kernel(draw: Draw) -> PlannedRun:
    fault = on_device(draw, "slow-kernel", seconds=draw.between(0.06, 0.2))
    plan = device_plan(draw, loop=draw.one_of(["item-each-step", "loss-never-read"]))
    plan = replace(plan, device=replace(plan.device, faults=(fault,)))
    return plan, truth(draw, FindingKind.STRAGGLER, "forward", Cause.SLOW_COMPUTE)


def late_host(draw: Draw, fault: str, calls: int, plan: Plan) -> Plan:
    """Add a host fault with which one host needs longer for a step than the device does.

    `calls` is how often the fault triggers in a step.
    """
    step = plan.forward_seconds + plan.backward_seconds
    seconds = f"{(step + draw.between(0.12, 0.25)) / calls:.4f}"
    return replace(plan, faults=(draw.fault(fault, seconds=seconds),))


def launch_bound(draw: Draw) -> PlannedRun:
    plan = device_plan(draw)
    plan = late_host(draw, "slow-compute", plan.device.microbatches, plan)
    return plan, truth(draw, FindingKind.STRAGGLER, "forward", Cause.LAUNCH_BOUND)


def launch_pauses(draw: Draw) -> PlannedRun:
    """The host of one rank pauses now and then, as for garbage collection."""
    fault = draw.fault("slow-compute", seconds=draw.between(0.3, 0.5), every=3 + draw.seed % 3)
    plan = device_plan(draw, fault, loop="item-each-step")
    return plan, truth(draw, FindingKind.STRAGGLER, "forward", Cause.LAUNCH_BOUND)


def slow_data(draw: Draw) -> PlannedRun:
    plan = late_host(draw, "slow-data", 1, device_plan(draw, read_data=True))
    kinds = (FindingKind.STRAGGLER, FindingKind.DATA_STALL)
    return plan, truth(draw, kinds, "data", Cause.SLOW_DATA)


def slow_loader(draw: Draw) -> PlannedRun:
    """No hook watches the loader: the device shows the fault, as it waits between steps."""
    plan = late_host(draw, "slow-data", 1, device_plan(draw, marked=False))
    return plan, truth(draw, FindingKind.STRAGGLER, "other", Cause.LAUNCH_BOUND)


def slow_links_of(draw: Draw, ranks: Sequence[int]) -> Plan:
    """Plan a run whose collectives take 0.1 to 0.3 s longer in each step."""
    plan = device_plan(draw)
    collectives = FSDP2_COLLECTIVES if plan.device.fsdp2 else 1
    seconds = round(draw.between(0.1, 0.3) / collectives, 4)
    faults = tuple(on_device(draw, "slow-link", rank=rank, seconds=seconds) for rank in ranks)
    return replace(plan, device=replace(plan.device, faults=faults))


def slow_link(draw: Draw) -> PlannedRun:
    plan = slow_links_of(draw, [draw.rank])
    return plan, truth(draw, FindingKind.SLOW_COLLECTIVE, "", Cause.SLOW_TRANSFER, ANY_RANK)


def slow_links(draw: Draw) -> PlannedRun:
    """The links of all ranks are slow."""
    plan = slow_links_of(draw, range(draw.world))
    return plan, truth(draw, FindingKind.SLOW_COLLECTIVE, "", Cause.SLOW_TRANSFER, ANY_RANK)


def stuck_kernel(draw: Draw) -> PlannedRun:
    phase = draw.one_of(["forward", "backward"])
    plan = device_plan(draw, faults=(on_device(draw, "stuck-kernel", phase=phase),))
    return plan, truth(draw, FindingKind.HANG, phase, Cause.DEVICE_STUCK)


def stuck_collective(draw: Draw) -> PlannedRun:
    """All devices wait in the collective. Their events do not show which one moves no data."""
    plan = device_plan(draw, faults=(on_device(draw, "stuck-collective"),))
    return plan, truth(draw, FindingKind.HANG, "", Cause.DEVICE_STUCK, ANY_RANK)


def killed(draw: Draw) -> PlannedRun:
    plan = device_plan(draw, draw.fault("kill"))
    return plan, truth(draw, FindingKind.RANK_FAILED, "", Cause.PROCESS_GONE)


FAULTY: dict[str, Maker] = {
    "device-slow-clock": slow_clock,
    "device-slow-kernel": slow_kernel,
    "device-launch-bound": launch_bound,
    "device-launch-pauses": launch_pauses,
    "device-slow-data": slow_data,
    "device-slow-loader": slow_loader,
    "device-slow-link": slow_link,
    "device-slow-links": slow_links,
    "device-stuck-kernel": stuck_kernel,
    "device-stuck-collective": stuck_collective,
    "device-kill": killed,
}
"""Faults by name."""


def healthy(loop: str = "", **changed: Any) -> Maker:
    """Return a maker of healthy runs of a loop; `changed` are fields of `Plan`."""

    def make(draw: Draw) -> PlannedRun:
        return replace(device_plan(draw, loop=loop), steps=HEALTHY_STEPS, **changed), None

    return make


def awkward(**drawn: Callable[[Draw], Any]) -> Maker:
    """Return a maker of healthy runs of a drawn loop, with unusual `drawn` fields of its work."""

    def make(draw: Draw) -> PlannedRun:
        work = {name: choose(draw) for name, choose in drawn.items()}
        return replace(device_plan(draw, **work), steps=HEALTHY_STEPS), None

    return make


def absorbed_pauses(draw: Draw) -> PlannedRun:
    """The host of one rank pauses now and then, for less time than it runs ahead."""
    pauses = draw.fault("slow-compute", seconds=draw.between(0.06, 0.12), every=4 + draw.seed)
    plan = device_plan(draw, pauses, loop="loss-never-read")
    return replace(plan, steps=HEALTHY_STEPS), None


def evaluations(draw: Draw) -> PlannedRun:
    seconds = draw.between(0.6, 1.5)
    plan = device_plan(draw)
    return replace(plan, steps=HEALTHY_STEPS, eval_every=15, eval_seconds=seconds), None


def checkpoints(draw: Draw) -> PlannedRun:
    seconds = draw.between(0.2, 0.6)
    plan = device_plan(draw)
    return replace(plan, steps=HEALTHY_STEPS, checkpoint_every=12, checkpoint_seconds=seconds), None


def long_first_step(draw: Draw) -> PlannedRun:
    return replace(device_plan(draw), steps=50, first_seconds=draw.between(2, 4)), None


HEALTHY: dict[str, Maker] = {
    **{f"device-{name}": healthy(name) for name in LOOPS},
    "device-far-ahead": awkward(loss_every=lambda draw: 0, depth=lambda draw: 1024),
    "device-begin-apart": awkward(begin_apart_seconds=lambda draw: draw.between(0.1, 0.4)),
    "device-unequal-launch": awkward(
        loss_every=lambda draw: 0,
        microbatches=lambda draw: 1,
        launch_seconds=lambda draw: 0.06 / draw.world,
    ),
    "device-absorbed-pauses": absorbed_pauses,
    "device-slow-but-equal": awkward(slow_factor=lambda draw: draw.between(1.8, 2.5)),
    "device-evaluations": evaluations,
    "device-checkpoints": checkpoints,
    "device-long-first-step": long_first_step,
}
"""Healthy runs by name."""


def cases() -> Iterator[Case]:
    """All cases on the device."""
    return cases_of((FAULTY, FAULT_SEEDS), (HEALTHY, HEALTHY_SEEDS))
