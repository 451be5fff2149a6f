"""Agents' external readings at one moment: rank positions, processes and nodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.faults.specs import Fault
from stepwatch.signals.arrays import Integers, Mask
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import UNKNOWN_RANK, Kind, Phase, ProcessState, text_bytes
from stepwatch.signals.version import version

from .clocks import NodeClocks
from .faults import Hang, Kill, SlowLink, SlowNode
from .plan import Plan
from .records import AnyRows, Groups, Part, Table, Tables, blank, sequence_numbers
from .steps import COLLECTIVES, NEVER, Step

RELEASED_SECONDS = 3.0
"""Delay from one rank's death to that of the others: the launcher notices it and ends them."""
KILLED, TERMINATED = 137, 143
"""Exit codes after SIGKILL and SIGTERM, as a shell reports them."""
HEARTBEAT_NS = NANOSECONDS // 4
JOB_CLASS = b"experiment"
_CPU_RATIO, _RUN_QUEUE_RATIO = 0.93, 0.004
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
        self._world = groups.world & 0xFFFF
        self._agent_row = blank(Kind.AGENT, 1, 1)
        self._agent_row["rank"] = UNKNOWN_RANK
        self._agent_row["poll_seconds"], self._agent_row["spool_bytes"] = 0.25, 0
        self._agent_row["dropped_segments"] = self._agent_row["held_segments"] = 0
        self._agent_row["version"] = text_bytes(
            version(), self._agent_row.dtype["version"].itemsize
        )
        self._retransmits = np.zeros(plan.nodes)
        self._counted_at = np.zeros(plan.nodes)

    def tables(
        self,
        part: Part,
        true_ns: int,
        step: Step,
        ended: Exit,
        stuck: Fault | None,
        flush_seconds: float,
    ) -> Tables:
        """Return RANK_STATE, HOST, NIC and AGENT rows at `true_ns`, while `step` is under way."""
        now = self._clocks.monotonic(part.nodes, np.array([true_ns]))
        agent_rows = np.repeat(self._agent_row, len(now), axis=0)
        agent_rows["time_ns"], agent_rows["flush_seconds"] = now[:, None], flush_seconds
        return {
            Kind.RANK_STATE: self._ranks(part, true_ns, step, ended, stuck),
            Kind.HOST: self._hosts(part, now, step),
            Kind.NIC: self._interfaces(part, true_ns, now, step),
            Kind.AGENT: agent_rows,
        }

    def _ranks(
        self, part: Part, true_ns: int, step: Step, ended: Exit, stuck: Fault | None
    ) -> Table:
        plan, ranks = self._plan, part.ranks(self._plan)
        per_node = plan.ranks_per_node
        nodes = np.repeat(part.nodes, per_node)
        gone_at = ended.end_ns[ranks]
        is_gone = gone_at <= true_ns
        seen_ns = np.minimum(true_ns, gone_at)
        rows = blank(Kind.RANK_STATE, len(nodes))
        rows["rank"] = np.arange(ranks.start, ranks.stop)
        rows["time_ns"] = self._clocks.monotonic(nodes, np.full(len(nodes), true_ns))
        rows["world"], rows["stage"], rows["job_class"] = plan.ranks, 0, JOB_CLASS
        waits = self._live_lines(rows, seen_ns, step, ranks, nodes)
        numbers = sequence_numbers(np.full(len(nodes), step.number), plan)
        rows["seq"] = numbers - 1
        rows["collectives_entered"] = step.number * _calls(plan) + waits
        rows["heartbeat_ns"] = self._clocks.monotonic(nodes, seen_ns) - HEARTBEAT_NS
        asleep = np.zeros(len(nodes))
        if isinstance(stuck, Hang):
            is_stuck = rows["rank"] == stuck.rank
            asleep = np.where(is_stuck, np.maximum(true_ns - asleep_since(step, stuck), 0), 0)
        spent = (seen_ns - asleep) / NANOSECONDS
        rows["cpu_seconds"] = _CPU_RATIO * spent
        rows["run_queue_seconds"] = _RUN_QUEUE_RATIO * spent
        rows["major_faults"], rows["overruns"], rows["torn"] = 12.0, 0, 0
        rows["hook_errors"] = 0
        rows["resident_bytes"] = _RESIDENT_BYTES + self._noise.integers(0, 1 << 22, len(nodes))
        rows["process_state"] = np.where(asleep > 0, ProcessState.SLEEPING, ProcessState.RUNNING)
        rows["process_state"][is_gone] = ProcessState.GONE
        rows["gone_ns"] = np.where(is_gone, self._clocks.monotonic(nodes, seen_ns), 0)
        rows["exit_code"] = np.where(is_gone, ended.code[ranks], -1)
        return rows.reshape(len(part.nodes), per_node)

    def _live_lines(
        self,
        rows: AnyRows,
        seen_ns: Integers,
        step: Step,
        ranks: slice,
        nodes: Integers,
    ) -> Mask:
        """Fill in each rank's position; return a mask of ranks in the step's first collective.

        A rank that has ended `step` is in the data phase of the next one.
        """
        began = step.began[ranks]
        loaded = began + step.data[ranks]
        passed = loaded + step.forward[ranks]
        arrived, end = step.arrive[ranks], step.end[ranks]
        updating = end - step.optimizer[ranks] - step.other[ranks]
        moments = np.stack([began, loaded, passed, updating, end])
        phase_index = (seen_ns >= moments).sum(axis=0) - 1
        # A rank that never arrives never leaves the forward.
        phase_index = np.where(arrived >= NEVER, np.minimum(phase_index, 1), phase_index)
        since = moments[phase_index, np.arange(len(phase_index))]
        waits: Mask = np.asarray((seen_ns >= arrived) & (seen_ns < step.release))
        rows["step"] = step.number + (phase_index == 4)
        rows["phase"] = _PHASES[phase_index]
        rows["since_ns"] = self._clocks.monotonic(nodes, since)
        entered = np.where(seen_ns >= arrived, arrived, began)
        rows["collective_since_ns"] = self._clocks.monotonic(nodes, entered)
        rows["in_collective"] = waits
        rows["collective_group"] = self._world
        rows["collective_op"] = COLLECTIVES[0].op
        rows["collective_bytes"] = COLLECTIVES[0].nbytes
        return waits

    def _hosts(self, part: Part, now: Integers, step: Step) -> Table:
        count = len(now)
        rows = blank(Kind.HOST, count, 1)
        rows["rank"], rows["time_ns"] = UNKNOWN_RANK, now[:, None]
        rows["cpu_busy_ratio"][:, 0] = self._noise.normal(0.35, 0.02, count)
        for name in ("cpu_steal", "cpu_pressure", "memory_pressure", "io_pressure"):
            rows[f"{name}_ratio"][:, 0] = self._noise.exponential(0.004, count)
        rows["load_per_cpu"][:, 0] = self._noise.normal(0.4, 0.02, count)
        rows["memory_total_bytes"] = _MEMORY_BYTES
        rows["memory_available_bytes"] = _MEMORY_BYTES // 2
        rows["major_faults_per_second"], rows["neighbour_pid"] = 0.0, 0
        for node in self._nodes_with(SlowNode, part, step):
            rows["cpu_steal_ratio"][node - part.first] = 0.4
        return np.asarray(rows)

    def _interfaces(self, part: Part, true_ns: int, now: Integers, step: Step) -> Table:
        """Return each node's TCP totals and its interface."""
        seconds = true_ns / NANOSECONDS
        rows = blank(Kind.NIC, len(now), 2)
        rows["rank"], rows["time_ns"] = UNKNOWN_RANK, now[:, None]
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
        return np.asarray(rows)

    def _nodes_with(self, kind: type[Fault], part: Part, step: Step) -> list[int]:
        """Return the nodes in `part` with an active fault of this kind."""
        active = (
            self._plan.node_of(fault.rank)
            for fault in self._plan.faults
            if isinstance(fault, kind) and fault.active(step.number)
        )
        return [node for node in active if part.first <= node < part.end]


def _calls(plan: Plan) -> int:
    return sum(collective.calls for collective in COLLECTIVES[: plan.collectives])


_PHASES = np.array([Phase.DATA, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.DATA])
"""Phase that begins at each of the moments began, loaded, passed, updating, end."""
