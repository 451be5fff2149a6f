"""Agents' external readings at one moment: rank positions, processes and nodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.agent.pace import FlushPace
from stepwatch.faults.specs import Fault
from stepwatch.signals.arrays import Integers
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import UNKNOWN_RANK, Kind, Phase, ProcessState, make_rows

from .clocks import NodeClocks
from .faults import Hang, Kill, SlowLink, SlowNode
from .plan import Plan
from .records import Groups, Part, Table, Tables, sequence_numbers
from .rows import Place, Places, agent_rows, host_rows, state_rows
from .steps import COLLECTIVES, NEVER, Step

RELEASED_SECONDS = 3.0
"""Delay from one rank's death to that of the others: the launcher notices it and ends them."""
KILLED, TERMINATED = 137, 143
"""Exit codes after SIGKILL and SIGTERM, as a shell reports them."""
HEARTBEAT_NS = NANOSECONDS // 4
_RUN_QUEUE_RATIO = 0.004
_RESIDENT_BYTES, _MEMORY_BYTES = 9 << 30, 1 << 40
_SEGMENTS_PER_SECOND, _LINK_BYTES_PER_SECOND = 20_000.0, 1.5e9
_RETRANSMITS, _BAD_RETRANSMITS = 1e-4, 0.05
"""Retransmitted share of all TCP segments: on a good link, and on a lossy one."""


class Exit(NamedTuple):
    """Ends of ranks: times (ranks,), `NEVER` while they run, and exit codes (ranks,)."""

    end_ns: Integers
    code: Integers


def exits(plan: Plan, step: Step, stopped_by: Fault | None) -> Exit:
    """Return the ends caused by the fault that stopped the run in `step`."""
    end_ns, code = np.full(plan.ranks, NEVER), np.full(plan.ranks, -1)
    if isinstance(stopped_by, Kill):
        died = asleep_since(step, stopped_by)
        end_ns[:] = died + round(RELEASED_SECONDS * NANOSECONDS)
        code[:] = TERMINATED
        end_ns[stopped_by.rank], code[stopped_by.rank] = died, KILLED
    return Exit(end_ns, code)


def asleep_since(step: Step, fault: Fault) -> int:
    """Return when a rank hangs or dies in a step: in the middle of its forward."""
    rank = fault.rank
    return int(step.began[rank] + step.data[rank] + step.forward[rank] // 2)


class Observer:
    """Creates rows with the agents' own readings."""

    def __init__(
        self, plan: Plan, clocks: NodeClocks, groups: Groups, noise: np.random.Generator
    ) -> None:
        self._plan = plan
        self._clocks = clocks
        self._noise = noise
        self._world = groups.world.number
        self._retransmits = np.zeros(plan.nodes)
        self._counted_at = np.zeros(plan.nodes)

    def tables(
        self,
        part: Part,
        true_ns: int,
        step: Step,
        ended: Exit,
        stuck: Fault | None,
        pace: FlushPace,
    ) -> Tables:
        """Return RANK_STATE, HOST, NIC and AGENT rows at `true_ns`, while `step` is under way."""
        now = self._clocks.monotonic(part.nodes, np.array([true_ns]))
        return {
            Kind.RANK_STATE: self._ranks(part, true_ns, step, ended, stuck),
            Kind.HOST: self._hosts(part, now, step),
            Kind.NIC: self._interfaces(part, true_ns, now, step),
            Kind.AGENT: agent_rows(now[:, None], pace.seconds, pace.is_early),
        }

    def _ranks(
        self, part: Part, true_ns: int, step: Step, ended: Exit, stuck: Fault | None
    ) -> Table:
        plan, ranks = self._plan, part.ranks(self._plan)
        numbers = np.arange(ranks.start, ranks.stop)
        nodes = np.repeat(part.nodes, plan.ranks_per_node)
        gone_at = ended.end_ns[ranks]
        is_gone, seen_ns = gone_at <= true_ns, np.minimum(true_ns, gone_at)
        seen = self._clocks.monotonic(nodes, seen_ns)
        asleep = np.zeros(len(nodes))
        if isinstance(stuck, Hang):
            is_stuck = numbers == stuck.rank
            asleep = np.where(is_stuck, np.maximum(true_ns - asleep_since(step, stuck), 0), 0)
        busy = (seen_ns - asleep) / NANOSECONDS
        places = _places(step, ranks, self._world)
        position = Places(places).find(slice(None), seen_ns)
        # The phase lasts on in the collective inside it.
        since = np.where(position.phase == Phase.BACKWARD, places[_BACKWARD].start, position.since)
        entered_at = np.where(position.entered > 0, position.entered_at, step.began[ranks])
        rows = state_rows(
            numbers,
            position._replace(
                since=self._clocks.monotonic(nodes, since),
                entered=step.number * _calls(plan) + position.in_collective,
                entered_at=self._clocks.monotonic(nodes, entered_at),
                # Before a step's first collective the newest one belongs to the step before.
                op=COLLECTIVES[0].op,
                group=self._world,
            ),
            state=np.where(asleep > 0, ProcessState.SLEEPING, ProcessState.RUNNING),
            busy_seconds=busy,
            gone_ns=np.where(is_gone, seen, 0),
            exit_code=ended.code[ranks],
            time_ns=self._clocks.monotonic(nodes, np.full(len(nodes), true_ns)),
            seq=sequence_numbers(np.array(step.number), plan) - 1,
            step=step.number + (position.place == len(places) - 1),
            world=plan.ranks,
            stage=0,
            collective_bytes=COLLECTIVES[0].nbytes,
            heartbeat_ns=seen - HEARTBEAT_NS,
            run_queue_seconds=_RUN_QUEUE_RATIO * busy,
            resident_bytes=_RESIDENT_BYTES + self._noise.integers(0, 1 << 22, len(nodes)),
        )
        return rows.reshape(len(part.nodes), plan.ranks_per_node)

    def _hosts(self, part: Part, now: Integers, step: Step) -> Table:
        rows = host_rows(
            now[:, None],
            self._noise,
            memory_total_bytes=_MEMORY_BYTES,
            memory_available_bytes=_MEMORY_BYTES // 2,
        )
        for node in self._nodes_with(SlowNode, part, step):
            rows["cpu_steal_ratio"][node - part.first] = 0.4
        return rows

    def _interfaces(self, part: Part, true_ns: int, now: Integers, step: Step) -> Table:
        """Return each node's TCP totals and its interface."""
        seconds = true_ns / NANOSECONDS
        rows = make_rows(Kind.NIC, len(now), 2, rank=UNKNOWN_RANK, time_ns=now[:, None])
        tcp, link = rows[:, 0], rows[:, 1]
        retransmit_ratio = np.full(len(now), _RETRANSMITS)
        retransmit_ratio[[node - part.first for node in self._nodes_with(SlowLink, part, step)]] = (
            _BAD_RETRANSMITS
        )
        nodes = slice(part.first, part.end)
        # Counters never fall: retransmits accumulate flush by flush.
        passed = seconds - self._counted_at[nodes]
        self._retransmits[nodes] += retransmit_ratio * _SEGMENTS_PER_SECOND * passed
        self._counted_at[nodes] = seconds
        tcp["tcp_sent_segments"] = _SEGMENTS_PER_SECOND * seconds
        tcp["tcp_retransmits"] = self._retransmits[nodes]
        link["interface"] = b"eth0"
        link["received_bytes"] = link["sent_bytes"] = _LINK_BYTES_PER_SECOND * seconds
        link["errors"] = link["drops"] = link["carrier_changes"] = 0.0
        link["speed_bits_per_second"] = 400e9
        return rows

    def _nodes_with(self, kind: type[Fault], part: Part, step: Step) -> list[int]:
        """Return the nodes in `part` with an active fault of this kind."""
        active = (
            self._plan.node_of(fault.rank)
            for fault in self._plan.faults
            if isinstance(fault, kind) and fault.active(step.number)
        )
        return [node for node in active if part.first <= node < part.end]


def _places(step: Step, ranks: slice, world: int) -> list[Place]:
    """Return the places of a step's ranks; a rank that has ended it loads the next batch."""
    began, arrived, end = step.began[ranks], step.arrive[ranks], step.end[ranks]
    loaded = began + step.data[ranks]
    # A rank that never arrives never leaves the forward.
    passed = np.where(arrived >= NEVER, NEVER, loaded + step.forward[ranks])
    return [
        Place(began, Phase.DATA),
        Place(loaded, Phase.FORWARD),
        Place(passed, Phase.BACKWARD),
        Place(arrived, Phase.BACKWARD, COLLECTIVES[0].op, world),
        Place(np.full_like(began, step.release), Phase.BACKWARD),
        Place(end - step.optimizer[ranks] - step.other[ranks], Phase.OPTIMIZER),
        Place(end, Phase.DATA),
    ]


_BACKWARD = 2
"""Index of the backward among the places."""


def _calls(plan: Plan) -> int:
    return sum(collective.calls for collective in COLLECTIVES[: plan.collectives])
