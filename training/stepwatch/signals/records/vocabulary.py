"""The meanings of the numbers in records: kinds, phases, operations, events, states."""

from __future__ import annotations

from enum import IntEnum, IntFlag


class Phase(IntEnum):
    """A rank's current work, with the trainer's names."""

    OTHER = 0
    DATA = 1
    FORWARD = 2
    BACKWARD = 3
    OPTIMIZER = 4
    CHECKPOINT = 5
    EVAL = 6


PHASE_NAMES = tuple(phase.name.lower() for phase in Phase)
PHASE_BY_NAME = {name: Phase(index) for index, name in enumerate(PHASE_NAMES)}


def phase_name(number: int) -> str:
    """Return the phase's name in a record; a later version's phase is `other`."""
    return PHASE_NAMES[number] if number < len(PHASE_NAMES) else PHASE_NAMES[Phase.OTHER]


class Kind(IntEnum):
    """A record's subject; the number is part of the wire format."""

    STEP = 1
    COLLECTIVE = 2
    CHECKPOINT = 3
    LIFECYCLE = 4
    GROUP = 5
    RANK_STATE = 6
    HOST = 7
    GAP = 8
    CURSOR = 9
    NUMERICS = 10
    MEMORY = 11
    DIAGNOSIS = 12
    FLIGHT = 13
    DEVICE = 14
    NIC = 15
    MICROBATCH = 16
    AGENT = 17
    DEVICE_STEP = 18
    DEVICE_COLLECTIVE = 19
    NODE_FACT = 20
    LAST_LINE = 21
    TOPOLOGY = 22
    METRIC = 23
    METRIC_NAME = 24
    VERIFICATION = 25


METRICS_PER_ROW = 8
"""Values in one METRIC record: with their names, what a slot of a ring holds."""
MOST_METRICS = 64
"""Maximum number of metrics of one rank, and of one job."""


class Better(IntEnum):
    """The direction in which a metric improves."""

    UNKNOWN = 0
    LOWER = 1
    HIGHER = 2


class StepFlag(IntFlag):
    """Unusual but healthy circumstances of a step."""

    FIRST = 1
    """First step of the attempt: compilation, allocation and caches."""
    AFTER_PAUSE = 2
    """A checkpoint or an evaluation ran since the previous step."""
    UNFINISHED = 4
    """An exception left the step."""
    PROFILED = 8
    """A requested profile made the step slower, or ended in it."""


class DeviceFlag(IntFlag):
    """Unusual circumstances of a step's device timing."""

    CAPTURED = 1
    """Part of the step was captured as a graph, in which no boundary is timed."""
    INCOMPLETE = 2
    """Some boundaries were not timed: their time counts to the phase before them."""


class DeviceState(IntEnum):
    """The current work of the compute stream on a rank's device."""

    UNKNOWN = 0
    IDLE = 1
    """It passed every boundary that the host enqueued."""
    WORKING = 2
    IN_COLLECTIVE = 3


class Op(IntEnum):
    """Collective operations, with torch.distributed's names."""

    OTHER = 0
    ALL_REDUCE = 1
    ALL_GATHER = 2
    REDUCE_SCATTER = 3
    BROADCAST = 4
    ALL_TO_ALL = 5
    BARRIER = 6
    SEND = 7
    RECV = 8


OP_NAMES = tuple(op.name.lower() for op in Op)


class CheckpointEvent(IntEnum):
    """Events of one checkpoint."""

    BEGIN = 1
    WRITTEN = 2
    VERIFIED = 3
    FAILED = 4
    REJECTED = 5
    """Found invalid during a search for one to resume from."""


class Verification(IntEnum):
    """What the agent found when it read a checkpoint's files."""

    UNKNOWN = 0
    """It could not be read; it may be read again later."""
    VERIFIED = 1
    DAMAGED = 2
    REMOVED = 3
    """The files were deleted or replaced by a later checkpoint."""
    WAITING = 4
    """Its path was reported; it was not read yet."""


class LifecycleEvent(IntEnum):
    """Events of one rank within one attempt."""

    START = 1
    FIRST_STEP = 2
    RESUME = 3
    """`value` is the step resumed from."""
    PREEMPTION = 4
    FINISH = 5
    FAILURE = 6
    SCHEDULE = 7
    """A pipeline schedule: `value` is its unavoidable bubble in millionths, -1 if unknown;
    `text` its name.
    """
    DEVICE_TIMING = 8
    """Whether the rank's steps are timed on its device: `value` 1 and the device's type in `text`,
    or 0 and the reason why they are timed only on the host.
    """
    INTERRUPT = 9
    """Ctrl-C (SIGINT) or a notice to leave (PREEMPTION) stopped the rank before its end: it neither
    finished nor failed.
    """
    LINK = 10
    """A piece of a link to an experiment tracker's run, see `records.pieces`."""
    FACT = 11
    """A piece of a fact about the run, such as a setting, see `records.pieces`."""
    ALLOCATION = 12
    """`value` is since when the job has held its devices, whole Unix seconds: before this attempt,
    if a launcher or a batch job restarts it. Rank 0 reports it if it is known.
    """
    CHECKPOINT_PATH = 13
    """A piece of the path of a finished save, see `records.pieces`; the record's step is the
    checkpoint's.
    """
    LOADED_PATH = 14
    """A piece of a path that the trainer loaded before its first step, see `records.pieces`."""


ENDS = (LifecycleEvent.FINISH, LifecycleEvent.FAILURE, LifecycleEvent.INTERRUPT)
"""Events after which a rank does nothing more."""


class NumericsSource(IntEnum):
    """The source of a NUMERICS record."""

    UNKNOWN = 0
    COLLECTIVE_INPUT = 1
    """The rank's input to a reduction, before the others' values mixed with it."""
    LOSS = 2
    GRAD_NORM = 3
    PARAMETERS = 4
    """A replica digest, not a search for non-finite values."""
    GRAD_NORM_SHARE = 5
    """The rank's share of the gradient norm, before the others' shares were added."""


LOSS_SCALED = 1 << 8
"""Bit beside a NumericsSource: the gradients belong to a scaled loss, which may overflow now and
then; the scaler skips that step.
"""

UNKNOWN_EXCHANGES = 0xFFFFFFFF
"""The `exchanges` in a NUMERICS record of a rank whose exchanges of gradients are not counted."""
SCALER_STEPS = 48
"""Consecutive steps that a loss scaler may skip.

Each halves the scale, and from 2^48, more than any framework's initial scale, it is down to one.
Below one no scale helps.
"""


class GilState(IntEnum):
    """Whether a process's thread kept the interpreter lock for the whole measurement."""

    UNKNOWN = 0
    FREE = 1
    HELD = 2


class Throttle(IntFlag):
    """Reasons for reduced device clocks, with NVML's names (`nvmlClocksEventReasons`).

    Source: NVML API reference, "Clocks Event Reasons".
    """

    IDLE = 0x1
    APPLICATION_CLOCKS = 0x2
    POWER_CAP = 0x4
    HARDWARE_SLOWDOWN = 0x8
    SYNC_BOOST = 0x10
    THERMAL = 0x20
    HARDWARE_THERMAL = 0x40
    HARDWARE_POWER_BRAKE = 0x80
    DISPLAY_CLOCKS = 0x100


class Activity(IntEnum):
    """The source of the activity readings for a device's parts, or why there are none."""

    UNKNOWN = 0
    GPM = 1
    """The driver's performance monitoring (NVML, GPM)."""
    DCGM = 2
    """A dcgm-exporter on the node."""
    NOT_SUPPORTED = 3
    """The device has no GPM: it is older than Hopper, or its driver than 520."""
    DIVIDED = 4
    """The device is divided into instances (MIG): GPM of the whole device counts none of them."""
    REFUSED = 5
    """The driver has GPM and gave no sample."""


MEASURED = (Activity.GPM, Activity.DCGM)
"""Values of `Activity` with measurements."""


class NodeFact(IntEnum):
    """Problems that a probe can find on a node; `signals.node_facts` lists their meanings."""

    PROBE_HANGS = 1
    DEVICE_LOST = 2
    XID = 3
    SXID = 4
    OUT_OF_MEMORY = 5
    HUNG_TASK = 6
    SOFT_LOCKUP = 7
    MACHINE_CHECK = 8
    READ_ONLY = 9
    DISK_ERRORS = 10
    FILE_SERVER_SILENT = 11
    PORT_MODULE = 12
    PORT_POWER = 13
    LIBRARY_CRASH = 14
    DISK_FULL = 15
    DISK_SLOW = 16
    FILE_SERVER_SLOW = 17
    PORT_DOWN = 18
    PORT_FLAPS = 19
    PORT_ERRORS = 20
    PORT_SLOW = 21
    ROWS_TO_REMAP = 22
    ROW_REMAP_FAILED = 23
    RECOVERY_NEEDED = 24
    PCIE_NARROW = 25
    DEVICE_MISSING = 26
    CONTAINER_THROTTLED = 27
    CONTAINER_MEMORY = 28
    CLOCK_SOURCE = 29
    HARDWARE_ERRORS = 30
    FIRMWARE = 31
    NVLINK_DOWN = 32
    NVLINK_ERRORS = 33
    PERSISTENCE_OFF = 34
    MIG_MODE = 35
    DEVICE_THROTTLED = 36
    HARDWARE_SLOWDOWN = 37
    POWER_BRAKE = 38
    DEVICE_HOT = 39
    ECC_UNCORRECTED = 40
    PCIE_REPLAYS = 41
    CPU_HOT = 60
    CPU_GOVERNOR = 61
    MEMORY_FRAGMENTED = 62
    NUMA_MISPLACED = 63
    HUGE_PAGES_SHORT = 64
    RANK_BLOCKED = 65
    RANK_ZOMBIE = 66
    SOURCE_UNREAD = 70


class Nearness(IntEnum):
    """The path between a device and a network card, with the names from `nvidia-smi topo` and NCCL.

    Source: the legend of `nvidia-smi topo --matrix`.
    """

    UNKNOWN = 0
    PIX = 1
    """One PCIe switch."""
    PXB = 2
    """Several PCIe switches below one host bridge."""
    PHB = 3
    """One CPU's host bridge."""
    NODE = 4
    """One NUMA node's host bridges."""
    SYS = 5
    """The connection between NUMA nodes."""


class ProcessState(IntEnum):
    """The state of a rank's process in `/proc`; `GONE` when there is no such process."""

    UNKNOWN = 0
    RUNNING = 1
    SLEEPING = 2
    UNINTERRUPTIBLE = 3
    STOPPED = 4
    ZOMBIE = 5
    GONE = 6
