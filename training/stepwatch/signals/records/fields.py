"""Each record kind's fields: name, type, and the value that means *unknown*.

Every record starts with the fields in `COMMON`; the other fields depend on its kind. Durations and
moments are nanoseconds on the node's monotonic clock. A reader uses a field's unknown value if a
writer with another version sends no such field, or a value that the field cannot hold: NaN in
floats, empty in texts, -1 in signed numbers. In unsigned numbers it is 0, which readers of these
fields treat as unknown; all ones if 0 is a measurement.

Segments and rings describe their fields by name, so a field may be added, removed, widened or moved
without harm. A name's meaning never changes: a new meaning gets a new name.
"""

from __future__ import annotations

from .vocabulary import METRICS_PER_ROW, PHASE_NAMES, UNKNOWN_EXCHANGES, Kind

_Value = int | float | bytes
_Field = tuple[str, str, _Value]

NAN = float("nan")

_COMMON: list[_Field] = [
    ("rank", "<i4", -1),
    ("seq", "<u8", 0),
    ("time_ns", "<u8", 0),
    ("step", "<u4", 0),
]
_PHASE_FIELDS: list[_Field] = [(f"{name}_ns", "<u8", 0) for name in PHASE_NAMES]

_BODIES: dict[Kind, list[_Field]] = {
    # The period from the end of the previous step to the end of this one. The phase fields hold
    # self time: without nested phases, without exposed collectives, without pipeline waits.
    Kind.STEP: [
        ("duration_ns", "<u8", 0),
        *_PHASE_FIELDS,
        ("collective_ns", "<u8", 0),
        ("pipeline_wait_ns", "<u8", 0),
        ("tokens", "<u4", 0),
        ("microbatches", "<u2", 0),
        ("flags", "<u2", 0),
        ("loss", "<f4", NAN),
        ("grad_norm", "<f4", NAN),
    ],
    # The same step on the compute stream of the rank's device, between timing events; written once
    # the device has passed the step's end, so after the STEP row. The phases, `collective` and
    # `pipeline_wait` are the stream's time, working or waiting for the host, and add up to
    # `duration`. `idle` is the part of a phase in which nothing was enqueued ahead: the device
    # waited for the host, or the host for the device.
    Kind.DEVICE_STEP: [
        ("duration_seconds", "<f4", NAN),
        *((f"{name}_seconds", "<f4", NAN) for name in PHASE_NAMES),
        *((f"{name}_idle_seconds", "<f4", NAN) for name in PHASE_NAMES),
        ("collective_seconds", "<f4", NAN),
        ("pipeline_wait_seconds", "<f4", NAN),
        # The host's lead when it enqueued the step's end.
        ("host_lead_seconds", "<f4", NAN),
        # Uncertainty of the offset between the device's clock and the host's.
        ("clock_error_seconds", "<f4", NAN),
        ("boundaries", "<u2", 0),  # that were timed
        ("flags", "<u2", 0),  # bits from `DeviceFlag`
    ],
    # All collectives with one operation in one group within one step.
    Kind.COLLECTIVE: [
        ("group", "<u4", 0),
        ("op", "<u2", 0),
        ("count", "<u4", 0),
        ("bytes", "<u8", 0),
        ("exposed_ns", "<u8", 0),
        ("longest_ns", "<u8", 0),
        ("first_arrival_ns", "<u8", 0),
    ],
    # The same calls on the compute stream: its wait for `timed` of `count` calls. A collective's
    # work beside the stream is not included.
    Kind.DEVICE_COLLECTIVE: [
        ("group", "<u4", 0),
        ("op", "<u2", 0),
        ("count", "<u4", 0),
        ("timed", "<u4", 0),
        ("exposed_seconds", "<f4", NAN),
        ("longest_seconds", "<f4", NAN),
        # When the stream arrived at the first timed call, as exactly as the clocks are known.
        ("first_arrival_ns", "<u8", 0),
        ("clock_error_seconds", "<f4", NAN),
    ],
    # `blocked_ns` is the stall's part in collectives: the rank for which the others wait has least.
    Kind.CHECKPOINT: [
        ("event", "<u2", 0),
        ("stall_ns", "<u8", 0),
        ("durable_ns", "<u8", 0),
        ("bytes", "<u8", 0),
        ("text", "S48", b""),
        ("blocked_ns", "<u8", 0),
    ],
    # The agent's verification of saved files, for the rank and step whose path was reported.
    # `path_number` is the path's CRC-32: a rank may save several files.
    Kind.VERIFICATION: [
        ("state", "<u2", 0),  # `Verification`
        ("again", "<u2", 0),  # 1: it verified before
        ("path_number", "<u4", 0),
        ("bytes", "<u8", 0),  # of all files; 0 is unknown
        ("seconds", "<f4", NAN),  # that reading them took
        ("file", "S128", b""),  # below the path; empty for the path itself
        ("reason", "S160", b""),
        ("path", "S256", b""),  # the end of a longer one
    ],
    # Sampled, and in every step in which a rank itself held non-finite values. Replicas with
    # different `digest` for the same step, group and part do not agree; group 0 is not a digest.
    # `exchanges` counts the rank's updates from gradients that the group exchanged, `local_updates`
    # those since the previous digest from gradients that the trainer kept on the rank.
    Kind.NUMERICS: [
        ("source", "<u2", 0),
        ("nonfinite", "<u4", 0),
        ("digest", "<u8", 0),
        ("digest_group", "<u4", 0),
        ("digest_part", "<u4", 0),
        ("text", "S40", b""),
        ("exchanges", "<u4", UNKNOWN_EXCHANGES),
        ("local_updates", "<u2", 0),
    ],
    # The memory of the rank's device as its allocator counts it, sampled; `limit` 0 is unknown.
    Kind.MEMORY: [
        ("device", "<i4", -1),
        ("allocated_bytes", "<u8", 0),
        ("reserved_bytes", "<u8", 0),
        ("limit_bytes", "<u8", 0),
    ],
    Kind.LIFECYCLE: [("event", "<u2", 0), ("value", "<i8", -1), ("text", "S56", b"")],
    # In sampled steps: one chunk of a pipeline stage's work, from `began_ns` to `time_ns`. `index`
    # counts the rank's rows in the step. A row with phase OTHER is the schedule's call around the
    # chunks since the previous call's row: it comes last, so a step that has it has lost no row.
    Kind.MICROBATCH: [
        ("index", "<u2", 0),
        ("stage", "<u2", 0),  # as the schedule counts its stages
        ("microbatch", "<u2", 0),
        ("phase", "<u2", 0),
        ("weight_only", "<u2", 0),  # 1: the part of a backward for which no other stage waits
        ("began_ns", "<u8", 0),
        ("blocked_ns", "<u8", 0),  # in collectives inside the chunk
    ],
    # The members of a group that COLLECTIVE records number. Groups with the same members have their
    # own numbers and names; the job's initial group has no name.
    Kind.GROUP: [
        ("group", "<u4", 0),
        ("size", "<u4", 0),
        ("index", "<u4", 0),
        ("text", "S48", b""),
        ("name", "S32", b""),
    ],
    # Numbers that the trainer recorded in one step, or in one evaluation if `evaluated` is 1. Each
    # name is a number from the rank's METRIC_NAME records; 0 marks an unused place, so that a value
    # may be NaN.
    Kind.METRIC: [
        ("evaluated", "<u2", 0),
        *((f"name_{place}", "<u2", 0) for place in range(METRICS_PER_ROW)),
        *((f"value_{place}", "<f8", NAN) for place in range(METRICS_PER_ROW)),
    ],
    # The name that a number has in the rank's METRIC records, written again now and then.
    # `evaluation` is empty for a metric of steps.
    Kind.METRIC_NAME: [
        ("number", "<u2", 0),
        ("better", "<u2", 0),  # `Better`
        ("text", "S48", b""),
        ("unit", "S16", b""),
        ("evaluation", "S24", b""),
    ],
    # The agent's view of one rank: its live line and its process.
    Kind.RANK_STATE: [
        ("phase", "<u2", 0),
        ("waiting", "<u2", 0),
        ("microbatch", "<u2", 0),
        ("since_ns", "<u8", 0),
        ("heartbeat_ns", "<u8", 0),
        ("collectives_entered", "<u4", 0),
        ("collective_since_ns", "<u8", 0),
        ("collective_group", "<u2", 0),
        ("collective_op", "<u2", 0),
        ("in_collective", "<u2", 0),
        # Bytes that the rank passed to its newest collective; 0 if unknown.
        ("collective_bytes", "<u8", 0),
        # The device's work: `DeviceState`, and the oldest boundary that it has not passed.
        ("device_state", "<u2", 0),
        ("device_since_ns", "<u8", 0),
        ("device_step", "<u4", 0),
        ("device_phase", "<u2", 0),
        ("device_group", "<u2", 0),
        ("device_op", "<u2", 0),
        ("process_state", "<u2", 0),
        ("cpu_seconds", "<f4", NAN),
        ("run_queue_seconds", "<f4", NAN),
        # Anonymous and shared memory, without pages of mapped files; 0 is unknown.
        ("resident_bytes", "<u8", 0),
        ("overruns", "<u4", 0),
        ("torn", "<u4", 0),
        ("hook_errors", "<u4", 0),
        ("stage", "<i2", -1),
        ("world", "<u4", 0),
        # Monotonic moment at which the process was seen to end; 0 while it runs or if unknown.
        ("gone_ns", "<u8", 0),
        # The exit status, as a shell reports it (128 + n: by signal n); -1 unknown. Meaningless
        # while `gone_ns` is 0.
        ("exit_code", "<i2", -1),
        # Page faults that had to wait for a disk, since the process began; NaN if unknown.
        ("major_faults", "<f4", NAN),
        # Counters for a rank that makes no progress, since the agent began to read them; NaN for a
        # rank with progress, or if they cannot be read. CPU time of its child processes; bytes that
        # it and they read and wrote, and the bytes on its TCP connection with the most traffic.
        ("children_cpu_seconds", "<f8", NAN),
        ("file_bytes", "<f8", NAN),
        ("tcp_bytes", "<f8", NAN),
        # Growth of its child processes since the agent first saw them; the remaining memory up to
        # its control group's limit, and that group's number, 0 without one.
        ("children_bytes", "<u8", 0),
        ("group_room_bytes", "<u8", 0),
        ("memory_group", "<u4", 0),
        ("job_class", "S32", b""),
    ],
    # A suspect rank's current work, queried from outside; -1 if a counter is unknown.
    Kind.DIAGNOSIS: [
        ("worker_answered", "<u2", 0),
        ("stack_read", "<u2", 0),
        ("gil", "<u2", 0),
        ("enqueued", "<i8", -1),
        ("completed", "<i8", -1),
        ("function", "S64", b""),
        ("line", "S128", b""),
        ("stack", "S512", b""),
        ("note", "S96", b""),
    ],
    # The newest entries in a suspect rank's flight recorder, one row each. `group` is torch's name
    # and description, then the members or their checksum in brackets if torch names them.
    Kind.FLIGHT: [
        ("group", "S32", b""),
        ("collective_seq", "<u8", 0),
        ("op", "S32", b""),
        ("sizes", "S96", b""),
        ("state", "S16", b""),
    ],
    # One reading from the host probe; NaN if the kernel does not report it.
    Kind.HOST: [
        ("cpu_busy_ratio", "<f4", NAN),
        ("cpu_steal_ratio", "<f4", NAN),
        ("cpu_pressure_ratio", "<f4", NAN),
        ("memory_pressure_ratio", "<f4", NAN),
        ("io_pressure_ratio", "<f4", NAN),
        ("load_per_cpu", "<f4", NAN),
        ("memory_available_bytes", "<u8", 0),
        ("memory_total_bytes", "<u8", 0),
        ("major_faults_per_second", "<f4", NAN),
        # The process that used most CPU among those that are no rank: CPUs' worth, pid 0 if
        # unknown.
        ("neighbour_cpu_ratio", "<f4", NAN),
        ("neighbour_pid", "<u4", 0),
        ("neighbour", "S32", b""),
    ],
    # One reading for one device: its number on the node in `device`, the rank on it in `rank`. NaN
    # if the driver does not report it; counters count since the driver was loaded.
    Kind.DEVICE: [
        ("device", "<i4", -1),
        ("address", "S16", b""),  # on the PCI bus, as the kernel writes it: 0000:3b:00
        ("lost", "<i2", -1),  # 1 fallen off the bus, 0 there, -1 unknown
        ("mig", "<i2", -1),  # 1 divided into instances (MIG), 0 whole, -1 unknown
        ("throttle", "<i8", -1),  # bits from `Throttle`, -1 unknown
        (
            "xid",
            "<i4",
            -1,
        ),  # number of the newest XID error since the agent began, 0 none, -1 unknown
        ("xid_count", "<f4", NAN),
        ("busy_ratio", "<f4", NAN),
        ("memory_used_bytes", "<f8", NAN),
        ("memory_total_bytes", "<f8", NAN),
        ("clock_hertz", "<f8", NAN),
        ("clock_limit_hertz", "<f8", NAN),
        ("power_watts", "<f4", NAN),
        ("power_limit_watts", "<f4", NAN),
        ("temperature_celsius", "<f4", NAN),
        ("ecc_corrected", "<f8", NAN),
        ("ecc_uncorrected", "<f8", NAN),
        ("pcie_replays", "<f8", NAN),
        ("nvlink_errors", "<f8", NAN),
        # Since the previous reading: shares of time and of the maximum, bytes through all links.
        ("activity", "<u2", 0),  # `Activity`: their source, or why there are none
        ("sm_active_ratio", "<f4", NAN),
        ("tensor_active_ratio", "<f4", NAN),
        ("dram_active_ratio", "<f4", NAN),
        ("nvlink_received_bytes_per_second", "<f4", NAN),
        ("nvlink_sent_bytes_per_second", "<f4", NAN),
        ("pcie_received_bytes_per_second", "<f4", NAN),
        ("pcie_sent_bytes_per_second", "<f4", NAN),
    ],
    # One reading for one network interface, or for all the node's TCP if `interface` is empty.
    # Counters since boot; NaN if the kernel does not report it.
    Kind.NIC: [
        ("interface", "S16", b""),
        ("received_bytes", "<f8", NAN),
        ("sent_bytes", "<f8", NAN),
        ("errors", "<f8", NAN),
        ("drops", "<f8", NAN),
        ("carrier_changes", "<f8", NAN),
        ("speed_bits_per_second", "<f8", NAN),
        ("tcp_sent_segments", "<f8", NAN),
        ("tcp_retransmits", "<f8", NAN),
    ],
    # A node problem, as a probe found it: sent when it begins, changes or is over, and now and then
    # between. `rank` is the affected rank, -1 for the node.
    Kind.NODE_FACT: [
        ("fact", "<u2", 0),  # `NodeFact`
        ("present", "<i2", -1),  # 1 it is there, 0 it is over, -1 unknown
        ("code", "<i4", -1),  # number of an XID error
        ("count", "<u4", 0),  # how often it was found since it began
        ("began_ns", "<u8", 0),
        ("subject", "S40", b""),  # device, port, disk or process
        ("text", "S200", b""),  # the line or the values that show it
    ],
    # A network card that is nearest to a device by PCI, a row each; none for a device that is
    # equally near to all its node's cards. `rank` is the rank that computes on the device.
    Kind.TOPOLOGY: [
        ("address", "S16", b""),  # the device's, as in DEVICE: 0000:3b:00
        ("nearness", "<u2", 0),  # `Nearness`
        ("port", "S24", b""),  # InfiniBand or RoCE: mlx5_0; empty if there is none
        ("interface", "S16", b""),  # Ethernet: ens5; empty if there is none
        ("card", "S16", b""),  # the card's PCI address: 0000:5e:00.0
    ],
    # The last stderr output of a rank that has ended, without secrets: the most informative lines,
    # in order, a row each. If none were kept there is one row, with the reason.
    Kind.LAST_LINE: [
        ("kept", "<i2", -1),  # 1 `text` is a line, 0 it is why there is none, -1 unknown
        ("place", "<u2", 0),
        ("text", "S240", b""),
    ],
    # Records known to be lost: overwritten in the ring or dropped from a full spool.
    Kind.GAP: [("first_seq", "<u8", 0), ("last_seq", "<u8", 0), ("text", "S32", b"")],
    # The position up to which a segment reads each ring, where a restarted agent continues.
    Kind.CURSOR: [("ring_id", "<u8", 0), ("next_seq", "<u8", 0)],
    # The agent's report about itself, one row a segment; all ones if a count is unknown.
    Kind.AGENT: [
        ("flush_seconds", "<f4", NAN),  # from one flush of records into segments to the next
        ("poll_seconds", "<f4", NAN),
        ("spool_bytes", "<u8", (1 << 64) - 1),
        ("dropped_segments", "<u4", (1 << 32) - 1),
        # Kept because no collector could read them.
        ("held_segments", "<u4", (1 << 32) - 1),
        ("version", "S24", b""),
        ("ring_free_bytes", "<u8", (1 << 64) - 1),  # in the directory for the node's rings
        # 1 if a rank's start, end or late step brought the flush forward.
        ("early", "<u2", 0),
    ],
}

COMMON: list[tuple[str, str]] = [(name, code) for name, code, _ in _COMMON]
"""Every record's fields: its rank, its number in that rank's ring, its end, its step."""

BODIES: dict[Kind, list[tuple[str, str]]] = {
    kind: [(name, code) for name, code, _ in body] for kind, body in _BODIES.items()
}
"""Each kind's fields after `COMMON`, as (name, numpy type)."""

UNKNOWN: dict[Kind, dict[str, int | float | bytes]] = {
    kind: {name: unknown for name, _, unknown in (*_COMMON, *body)}
    for kind, body in _BODIES.items()
}
"""The value that means *unknown* in each kind's fields."""

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
        Kind.DEVICE_STEP,
        Kind.DEVICE_COLLECTIVE,
        Kind.METRIC,
        Kind.METRIC_NAME,
    }
)
"""Kinds that ranks write; the agent writes the others."""
