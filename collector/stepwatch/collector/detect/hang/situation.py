"""The state of ranks without progress: position, activity, device, and missed collectives.

For a rank with a known device, the device's progress counts, not that of a host that runs ahead. A
host enqueues work for later steps while its device is stuck in one step, and a host that waits for
its device makes no progress itself. The hooks' side thread follows the device: if its heartbeat is
old, the device's line is old, too, and the host's lines count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.context import STALE_AFTER_SECONDS
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.trackers.diagnoses import Diagnosis
from stepwatch.collector.state.trackers.rank_work import Work
from stepwatch.signals.arrays import Mask, Rows, Vector
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import OP_NAMES, DeviceState, Phase, ProcessState, phase_name

DEAD = (ProcessState.GONE, ProcessState.ZOMBIE, ProcessState.STOPPED)
"""States from which a process does not recover by itself."""
BUSY = (DeviceState.WORKING, DeviceState.IN_COLLECTIVE)
"""The device has not passed the work that its host enqueued, so it shows the rank's position."""
_ENQUEUES_MUCH = (Phase.FORWARD, Phase.BACKWARD)
"""Phases in which a host may use a CPU while it waits for queue room on a stuck device."""
HELD_STATES = (ProcessState.STOPPED, ProcessState.UNINTERRUPTIBLE)
"""States that one action or one file system causes on several ranks: none of them is the first."""


@dataclass(frozen=True)
class Thresholds:
    """Thresholds for a stalled job."""

    least_seconds: float = 5.0
    """Seconds: the shortest time without any rank's progress that counts. It is twice the longest
    update gap in healthy runs.
    """
    step_multiple: float = 8.0
    """Median steps: the time without progress that counts, if it is longer than `least_seconds`."""
    first_step_seconds: float = 600.0
    """Seconds: the limit before the first step has ended. Compilation and first network use take
    minutes.
    """
    early_seconds: float = 30.0
    """Seconds: the shortest time without progress that counts in the first steps, before there is a
    median. The longest step times `step_multiple` counts if it is larger, which spans a second
    compilation after a short first step.
    """
    legal_seconds: float = 75.0
    """Seconds: how long a rank may block others without CPU time, bytes or a child at work before a
    page. Waits for a hub, a database, a lock or a late batch, and evaluations on one rank without a
    hook, take up to a minute in healthy runs; a quarter is added for agent and collector delays.
    Beyond it, a rank that works is a ticket. It also applies to unobserved ranks, and to a
    collective with all ranks inside but no moving bytes: a flapping link takes 10 to 20 s, a model
    broadcast may take as long.
    """
    marked_seconds: float = 105.0
    """Seconds: the same in a marked checkpoint or evaluation, whose author declares that it takes
    long. A page is due within two minutes, and evaluations and alerts take some seconds.
    """
    pause_multiple: float = 1.5
    """Ratio: the limit for a wait from which the job recovered before, over the longest one in the
    same phase.
    """
    pause_seconds: float = 900.0
    """Seconds: how long signs of work explain a marked checkpoint or evaluation, or one without
    waiting ranks.
    """
    held_seconds: float = 480.0
    """Seconds: how long signs of work explain the others' wait in a collective for unmarked work,
    and so also for an unknown process. NCCL gives up after 600 s by default
    (torch.distributed.init_process_group, `timeout`), and two minutes are left to look.
    """
    lost_node_seconds: float = 10.0
    """Seconds: the limit if all observed ranks wait in a collective for ranks on a node that fell
    silent when they halted. It lost its power or its network, as a pause that begins within seconds
    of an agent's end is rare. It is below the telemetry limit by the largest distance between both
    moments, so that a lost node is one incident.
    """
    late_seconds: float = 0.5
    """Seconds: by how much a lost node's last report may be later than a flush before the others'
    last step. It was in transit, or its agent had little time.
    """
    order_steps: int = 8
    """Steps: how many earlier ones are read for the collective order, of which half must be known.
    Ranks that wait in a later collective of a step show that the others have entered it, so none
    evaluates. Loops that accumulate gradients or sample their logs have steps that differ.
    """


LIMITS = Thresholds()
"""The shipped thresholds."""


class RankSituation(NamedTuple):
    """One rank as its agent last saw it; ages in seconds before the agent's poll.

    `moved_age` is the time since its live or collective line changed, `heartbeat_age` the time
    since its hooks' side thread ran. If `host` is set, the device is busy: step, phase, collective
    and `moved_age` are the device's, and `host` holds the host's. `idle_device` means that the
    device has no work.

    `work` is the process's activity in the newest seconds since the rank moved, None if unknown.
    `worked_age` is the time since the rank was last seen at work, and `carried_age` the time since
    its bytes last moved after the rank moved. `cpu_ratio` is the CPU time used or ready to be used,
    per second, NaN if unknown. `silent_seconds` above 0 is the time since a rank that was already
    stalled was last seen.
    """

    rank: int
    step: int
    phase: int
    microbatch: int
    waiting: bool
    in_collective: bool
    op: int
    moved_age: float
    heartbeat_age: float
    process: ProcessState
    group: int = 0
    host: RankSituation | None = None
    work: Work | None = None
    worked_age: float = math.inf
    carried_age: float = math.inf
    cpu_ratio: float = math.nan
    node: str = ""
    silent_seconds: float = 0.0
    idle_device: bool = False

    @property
    def is_held(self) -> bool:
        """Return whether it waits for others: in a collective, or for a pipeline neighbour."""
        return self.waiting or self.in_collective


class Unseen(NamedTuple):
    """An unobserved rank, last seen `silent_seconds` ago (NaN if never), and its node.

    `paused` says whether it was in a marked evaluation or save when last seen; its agent sent every
    `flush_seconds`.
    """

    rank: int
    node: str
    silent_seconds: float
    paused: bool = False
    flush_seconds: float = 1.0


class Missed(NamedTuple):
    """A collective that `rank` did not enter while others wait in it, by their flight recorders."""

    rank: int
    op: str
    number: int
    group: str
    waiters: int


class RankDiagnostics(NamedTuple):
    """The ranks' diagnoses since the stall began, by rank, and the groups' members.

    `groups` maps the low 16 bits of a group's number, as in the collective line, to its ranks as
    text.
    """

    diagnoses: Mapping[int, Diagnosis] = MappingProxyType({})
    groups: Mapping[int, str] = MappingProxyType({})


class OtherRanks(NamedTuple):
    """Ranks outside a stalled job's situations: they are unobserved or have ended.

    `ended` ranks did so cleanly while others continued. `entered` ranks, observed or not, have
    entered the others' current step. `finished` is whether an `ended` rank has finished its
    training.
    """

    unseen: tuple[Unseen, ...] = ()
    ended: tuple[int, ...] = ()
    entered: frozenset[int] = frozenset()
    finished: bool = False


NO_OTHER_RANKS = OtherRanks()


NO_DIAGNOSTICS = RankDiagnostics()


def missed_collectives(diagnoses: Mapping[int, Diagnosis]) -> list[Missed]:
    """Return ranks whose recorder lacks the newest collective that others entered in a group.

    A rank counts only if it knows the group and its recorder answered.
    """
    missed: list[Missed] = []
    newest = {rank: item.newest() for rank, item in diagnoses.items() if item.answered}
    for group in sorted({group for entries in newest.values() for group in entries}):
        numbers = {rank: entries[group] for rank, entries in newest.items() if group in entries}
        last = max(numbers.values(), key=lambda entry: entry.number)
        waiters = sum(entry.number == last.number for entry in numbers.values())
        missed += [
            Missed(rank, last.op, entry.number + 1, group, waiters)
            for rank, entry in numbers.items()
            if entry.number == last.number - 1
        ]
    return missed


class Activity(Enum):
    """The activity of a rank's process outside any collective."""

    RUNNING = "running"
    """The process, or one that it started, uses a CPU, reads, writes, receives or sends."""
    IDLE = "idle"
    """It does none of this: it sleeps, is blocked, stopped or dead."""
    UNKNOWN = "unknown"
    """The agent does not see the process, or has not polled often enough since it last moved."""


def activity_of(item: RankSituation) -> Activity:
    """Return the activity of one rank's process; one that cannot recover by itself is idle."""
    if is_over(item):
        return Activity.IDLE
    if item.work is None:
        return Activity.UNKNOWN
    return Activity.RUNNING if item.work else Activity.IDLE


def is_over(item: RankSituation) -> bool:
    """Return whether facts show that the rank cannot resume by itself.

    It is stopped or dead, its device is stuck, or its interpreter is blocked while it does no work.
    """
    blocked = is_interpreter_held(item) and item.work is Work.NONE
    return item.process in DEAD or is_device_stuck(item) or blocked


def is_interpreter_held(item: RankSituation) -> bool:
    """Return whether one call holds the lock of the rank's interpreter, so no other thread runs.

    The side thread of the hooks, which beats twice a second, is stale.
    """
    return item.heartbeat_age > STALE_AFTER_SECONDS


def quiet_seconds(item: RankSituation) -> float:
    """Return the seconds since the rank was last seen moving or working; 0 if unknown.

    CPU time that is used while the interpreter is held is no sign of progress: an endless loop in
    native code looks the same.
    """
    quiet = item.worked_age if item.work is Work.NONE else 0.0
    if is_interpreter_held(item) and item.work in (Work.NONE, Work.CPU):
        quiet = item.heartbeat_age
    return min(quiet, item.moved_age)


def is_device_stuck(item: RankSituation) -> bool:
    """Return whether a busy device blocks the rank, and does not merely run its host's own work.

    A rank may evaluate on its device outside any phase. Then the host runs and the device is in a
    kernel that came after the last step boundary, so both are in the same place.
    """
    if item.host is None:
        return False
    ahead = item.step < item.host.step or item.phase != item.host.phase
    return item.in_collective or ahead or item.phase in _ENQUEUES_MUCH or not item.work


def are_all_frozen(ranks: Sequence[RankSituation]) -> bool:
    """Return whether no thread runs on any rank, so no rank can be the awaited one.

    A rank that waits in a collective lets its other threads run, so its heartbeat continues. If all
    heartbeats end at one time and no process uses a CPU, something froze them together.
    """
    if any(item.process in HELD_STATES for item in ranks):
        return False  # the processes' states are more specific
    ages = [item.heartbeat_age for item in ranks]
    if len(ranks) < 2 or not max(ages) - min(ages) <= STALE_AFTER_SECONDS:
        return False
    return min(ages) > STALE_AFTER_SECONDS and all(item.work is Work.NONE for item in ranks)


def moved_ages(attempt: Attempt, now_s: float) -> Vector:
    """Return the seconds since each rank made progress (world,), NaN where unknown.

    For a busy device its own line counts, whatever its host does. For an idle device the newer
    event counts: the device became idle, or its host made progress.
    """
    rows, ages = attempt.ranks.rows, attempt.ranks.moved_ages(now_s)
    if not (rows["device_state"] != DeviceState.UNKNOWN).any():  # no device is followed
        return ages
    device, is_followed = _seconds(rows, "device_since_ns"), followed(rows)
    busy = is_followed & np.isin(rows["device_state"], BUSY)
    idle = is_followed & (rows["device_state"] == DeviceState.IDLE)
    ages[busy] = device[busy]
    ages[idle] = np.minimum(ages, device)[idle]
    return ages


def followed(rows: Rows) -> Mask:
    """Return which RANK_STATE rows have a device line that is as fresh as their heartbeat."""
    is_reported: Mask = (rows["device_state"] != DeviceState.UNKNOWN) & (
        rows["device_since_ns"] > 0
    )
    alive = (rows["heartbeat_ns"] > 0) & (rows["gone_ns"] == 0)
    fresh = _seconds(rows, "heartbeat_ns") <= STALE_AFTER_SECONDS
    return np.asarray(is_reported & alive & fresh)


def as_device(host: RankSituation, row: np.void) -> RankSituation:
    """Return the rank at its device's position if the device is busy; `host` keeps the host's."""
    state = int(row["device_state"])
    if not followed(row.reshape(1))[0]:
        return host
    if state not in BUSY:
        return host._replace(idle_device=state == DeviceState.IDLE)
    return host._replace(
        step=int(row["device_step"]),
        phase=int(row["device_phase"]),
        waiting=False,
        in_collective=state == DeviceState.IN_COLLECTIVE,
        op=int(row["device_op"]),
        group=int(row["device_group"]),
        host=host,
    )


def place_words(item: RankSituation) -> str:
    """Return a device's or host's position: `in backward of step 57, in all_reduce`."""
    inside = f", in {OP_NAMES[item.op % len(OP_NAMES)]}" if item.in_collective else ""
    waits = ", waiting for a pipeline neighbour" if item.waiting else ""
    return f"in {phase_name(item.phase)} of step {item.step}{inside}{waits}"


def _seconds(rows: Rows, name: str) -> Vector:
    """Return the age of a timestamp (rows,) at the agent's poll, in seconds, at least 0."""
    passed = rows["time_ns"].astype(np.int64) - rows[name].astype(np.int64)
    return np.asarray(np.maximum(passed, 0) / NANOSECONDS)
