"""Record types: the fixed-size facts that ranks write and segments carry.

Every record starts with the fields of `COMMON`; the rest depends on its kind. Durations and
moments are nanoseconds on the node's monotonic clock. A value that is not known is NaN where the
field is a float and the field's own sentinel elsewhere; it is never zero by default.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

import numpy as np

SCHEMA_VERSION = 2
"""Version of all dtypes below; a reader refuses a version it does not know."""

UNKNOWN_RANK = -1
"""Rank of a record that belongs to the node rather than to a rank."""


class Phase(IntEnum):
    """What a rank is doing, as the trainer names it."""

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
    """Name of a phase as a record holds it; one of a later version is `other`."""
    return PHASE_NAMES[number] if number < len(PHASE_NAMES) else PHASE_NAMES[Phase.OTHER]


class Kind(IntEnum):
    """What a record is about; the number is part of the wire format."""

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


class StepFlag(IntFlag):
    """What was unusual, and healthy, about a step."""

    FIRST = 1
    """First step of the attempt: compilation, allocation and caches."""
    AFTER_PAUSE = 2
    """A checkpoint or an evaluation ran since the previous step."""
    UNFINISHED = 4
    """The step was left by an exception."""


class Op(IntEnum):
    """Collective operations, named as torch.distributed names them."""

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
    """Life of one checkpoint."""

    BEGIN = 1
    WRITTEN = 2
    VERIFIED = 3
    FAILED = 4
    REJECTED = 5
    """Found bad while looking for one to resume from."""


class LifecycleEvent(IntEnum):
    """Life of one rank within one attempt."""

    START = 1
    FIRST_STEP = 2
    RESUME = 3
    """`value` is the step resumed from."""
    PREEMPTION = 4
    FINISH = 5
    FAILURE = 6
    SCHEDULE = 7
    """A pipeline schedule: `value` is the bubble it cannot avoid in millionths, -1 if unknown;
    `text` its name."""


class NumericsSource(IntEnum):
    """Where a NUMERICS record looked."""

    UNKNOWN = 0
    COLLECTIVE_INPUT = 1
    """What the rank put into a reduction, before the others' values mixed with it."""
    LOSS = 2
    GRAD_NORM = 3
    PARAMETERS = 4
    """A replica digest, not a search for values that are not finite."""
    GRAD_NORM_SHARE = 5
    """What the rank adds to the gradient norm, before the others' shares were added."""


LOSS_SCALED = 1 << 8
"""Bit beside a NumericsSource: the gradients are those of a scaled loss, which may overflow now and
then; the scaler leaves such a step out."""


class GilState(IntEnum):
    """Whether a process's interpreter lock was held by a thread that did not let go."""

    UNKNOWN = 0
    FREE = 1
    HELD = 2


class Throttle(IntFlag):
    """Why a device's clocks are held down, as NVML names the reasons (`nvmlClocksEventReasons`).

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


class ProcessState(IntEnum):
    """State of a rank's process as `/proc` tells it; `GONE` when there is no such process."""

    UNKNOWN = 0
    RUNNING = 1
    SLEEPING = 2
    UNINTERRUPTIBLE = 3
    STOPPED = 4
    ZOMBIE = 5
    GONE = 6


COMMON: list[tuple[str, str]] = [
    ("rank", "<i4"),
    ("seq", "<u8"),
    ("time_ns", "<u8"),
    ("step", "<u4"),
]
"""Fields of every record: who, its number in that rank's ring, when it ended, in which step."""

_PHASE_FIELDS = [(f"{name}_ns", "<u8") for name in PHASE_NAMES]

BODIES: dict[Kind, list[tuple[str, str]]] = {
    # The period from the end of the previous step to the end of this one. The phase fields hold
    # self time: without nested phases, without exposed collectives, without pipeline waits.
    Kind.STEP: [
        ("duration_ns", "<u8"),
        *_PHASE_FIELDS,
        ("collective_ns", "<u8"),
        ("pipeline_wait_ns", "<u8"),
        ("tokens", "<u4"),
        ("microbatches", "<u2"),
        ("flags", "<u2"),
        ("loss", "<f4"),
        ("grad_norm", "<f4"),
    ],
    # All collectives of one operation in one group within one step.
    Kind.COLLECTIVE: [
        ("group", "<u4"),
        ("op", "<u2"),
        ("count", "<u4"),
        ("bytes", "<u8"),
        ("exposed_ns", "<u8"),
        ("longest_ns", "<u8"),
        ("first_arrival_ns", "<u8"),
    ],
    Kind.CHECKPOINT: [
        ("event", "<u2"),
        ("stall_ns", "<u8"),
        ("durable_ns", "<u8"),
        ("bytes", "<u8"),
        ("text", "S48"),
    ],
    # Sampled, and in every step in which a rank itself held values that are not finite. Replicas
    # whose `digest` of the same step, group and part differ do not agree; group 0 is no digest.
    Kind.NUMERICS: [
        ("source", "<u2"),
        ("nonfinite", "<u4"),
        ("digest", "<u8"),
        ("digest_group", "<u4"),
        ("digest_part", "<u4"),
        ("text", "S40"),
    ],
    # Memory of the rank's device as its allocator sees it, sampled; `limit` 0 is unknown.
    Kind.MEMORY: [
        ("device", "<i4"),
        ("allocated_bytes", "<u8"),
        ("reserved_bytes", "<u8"),
        ("limit_bytes", "<u8"),
    ],
    Kind.LIFECYCLE: [("event", "<u2"), ("value", "<i8"), ("text", "S56")],
    # In sampled steps: one chunk of a pipeline stage's work, from `began_ns` to `time_ns`. `index`
    # counts the rank's rows of the step. A row of phase OTHER is the schedule's call around the
    # chunks since the row of the call before: it comes last, so what has it has lost no row.
    Kind.MICROBATCH: [
        ("index", "<u2"),
        ("stage", "<u2"),  # as the schedule counts its stages
        ("microbatch", "<u2"),
        ("phase", "<u2"),
        ("weight_only", "<u2"),  # 1: the part of a backward that no other stage waits for
        ("began_ns", "<u8"),
        ("blocked_ns", "<u8"),  # in collectives inside the chunk
    ],
    # What a group number of a COLLECTIVE record stands for.
    Kind.GROUP: [("group", "<u4"), ("size", "<u4"), ("index", "<u4"), ("text", "S48")],
    # The agent's view of one rank: its live line and its process.
    Kind.RANK_STATE: [
        ("phase", "<u2"),
        ("waiting", "<u2"),
        ("microbatch", "<u2"),
        ("since_ns", "<u8"),
        ("heartbeat_ns", "<u8"),
        ("collectives_entered", "<u4"),
        ("collective_since_ns", "<u8"),
        ("collective_group", "<u2"),
        ("collective_op", "<u2"),
        ("in_collective", "<u2"),
        # Bytes that the rank passed to its newest collective; 0 where no one told.
        ("collective_bytes", "<u8"),
        ("process_state", "<u2"),
        ("cpu_seconds", "<f4"),
        ("run_queue_seconds", "<f4"),
        # Anonymous and shared memory, without pages of mapped files; 0 is unknown.
        ("resident_bytes", "<u8"),
        ("overruns", "<u4"),
        ("torn", "<u4"),
        ("hook_errors", "<u4"),
        ("stage", "<i2"),
        ("world", "<u4"),
        # Monotonic moment at which the process was seen to end; 0 while it lives or if unknown.
        ("gone_ns", "<u8"),
        # How it ended, as a shell tells it (128 + n: by signal n); -1 unknown. Means nothing
        # while `gone_ns` is 0.
        ("exit_code", "<i2"),
        # Page faults that had to wait for a disk, since the process began; NaN if unknown.
        ("major_faults", "<f4"),
        ("job_class", "S32"),
    ],
    # What a suspect rank was found doing, asked from outside; -1 where a counter is not known.
    Kind.DIAGNOSIS: [
        ("worker_answered", "<u2"),
        ("stack_read", "<u2"),
        ("gil", "<u2"),
        ("enqueued", "<i8"),
        ("completed", "<i8"),
        ("function", "S64"),
        ("line", "S128"),
        ("stack", "S512"),
        ("note", "S96"),
    ],
    # Newest entries of a suspect rank's flight recorder, one row each. `group` is torch's name and
    # description, then the members or their checksum in brackets where torch tells them.
    Kind.FLIGHT: [
        ("group", "S32"),
        ("collective_seq", "<u8"),
        ("op", "S32"),
        ("sizes", "S96"),
        ("state", "S16"),
    ],
    # One reading of the host probe; NaN where the kernel does not tell.
    Kind.HOST: [
        ("cpu_busy_ratio", "<f4"),
        ("cpu_steal_ratio", "<f4"),
        ("cpu_pressure_ratio", "<f4"),
        ("memory_pressure_ratio", "<f4"),
        ("io_pressure_ratio", "<f4"),
        ("load_per_cpu", "<f4"),
        ("memory_available_bytes", "<u8"),
        ("memory_total_bytes", "<u8"),
        ("major_faults_per_second", "<f4"),
        # The process that used most CPU of those that are no rank: CPUs' worth, pid 0 if unknown.
        ("neighbour_cpu_ratio", "<f4"),
        ("neighbour_pid", "<u4"),
        ("neighbour", "S32"),
    ],
    # One reading of one device, its number on the node in `device`, the rank that runs on it in
    # `rank`. NaN where the driver does not tell; counters count since the driver was loaded.
    Kind.DEVICE: [
        ("device", "<i4"),
        ("lost", "<i2"),  # 1 fallen off the bus, 0 there, -1 unknown
        ("throttle", "<i8"),  # bits of `Throttle`, -1 unknown
        ("xid", "<i4"),  # number of the newest XID error since the agent began, 0 none, -1 unknown
        ("xid_count", "<f4"),
        ("busy_ratio", "<f4"),
        ("memory_used_bytes", "<f8"),
        ("memory_total_bytes", "<f8"),
        ("clock_hertz", "<f8"),
        ("clock_limit_hertz", "<f8"),
        ("power_watts", "<f4"),
        ("power_limit_watts", "<f4"),
        ("temperature_celsius", "<f4"),
        ("ecc_corrected", "<f8"),
        ("ecc_uncorrected", "<f8"),
        ("pcie_replays", "<f8"),
        ("nvlink_errors", "<f8"),
    ],
    # One reading of one network interface, or of all TCP of the node where `interface` is empty.
    # Counters since boot; NaN where the kernel does not tell.
    Kind.NIC: [
        ("interface", "S16"),
        ("received_bytes", "<f8"),
        ("sent_bytes", "<f8"),
        ("errors", "<f8"),
        ("drops", "<f8"),
        ("carrier_changes", "<f8"),
        ("speed_bits_per_second", "<f8"),
        ("tcp_sent_segments", "<f8"),
        ("tcp_retransmits", "<f8"),
    ],
    # Records known to be lost: overwritten in the ring or dropped from a full spool.
    Kind.GAP: [("first_seq", "<u8"), ("last_seq", "<u8"), ("text", "S32")],
    # How far a segment reads each ring, so that a restarted agent goes on exactly there.
    Kind.CURSOR: [("ring_id", "<u8"), ("next_seq", "<u8")],
}

DTYPES: dict[Kind, np.dtype[np.void]] = {
    kind: np.dtype([*COMMON, *body]) for kind, body in BODIES.items()
}
"""Structured dtype of each kind, little-endian and packed."""

RING_KINDS = frozenset(
    {
        Kind.STEP,
        Kind.COLLECTIVE,
        Kind.CHECKPOINT,
        Kind.LIFECYCLE,
        Kind.GROUP,
        Kind.NUMERICS,
        Kind.MEMORY,
        Kind.MICROBATCH,
    }
)
"""Kinds that ranks write; the agent writes the others."""

UNKNOWN_FLOAT = float("nan")
WORLD_GROUP = "0"
"""Name of the group of all ranks in FLIGHT: torch counts its groups from 0."""


def text_bytes(text: str, size: int) -> bytes:
    """Encode `text` as at most `size` bytes of UTF-8, cut at a character boundary."""
    return text.encode("utf-8", "replace")[:size].decode("utf-8", "ignore").encode("utf-8")
