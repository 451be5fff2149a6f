"""Record layouts as released formats froze them: data, never edited.

Each text lists a kind's fields in the order of their bytes; `layouts` says how to read it. Format 2
and the rings of its time carry no layouts: kinds refer to these. A later change of a record changes
`records`, not this file.
"""

from __future__ import annotations

FORMAT_2: dict[int, str] = {
    1: (
        "rank:i4 seq:u8 time_ns:u8 step:u4 duration_ns:u8 other_ns:u8 data_ns:u8 "
        "forward_ns:u8 backward_ns:u8 optimizer_ns:u8 checkpoint_ns:u8 eval_ns:u8 "
        "collective_ns:u8 pipeline_wait_ns:u8 tokens:u4 microbatches:u2 flags:u2 loss:f4 "
        "grad_norm:f4"
    ),
    2: (
        "rank:i4 seq:u8 time_ns:u8 step:u4 group:u4 op:u2 count:u4 bytes:u8 exposed_ns:u8 "
        "longest_ns:u8 first_arrival_ns:u8"
    ),
    3: ("rank:i4 seq:u8 time_ns:u8 step:u4 event:u2 stall_ns:u8 durable_ns:u8 bytes:u8 text:S48"),
    4: ("rank:i4 seq:u8 time_ns:u8 step:u4 event:u2 value:i8 text:S56"),
    5: ("rank:i4 seq:u8 time_ns:u8 step:u4 group:u4 size:u4 index:u4 text:S48"),
    6: (
        "rank:i4 seq:u8 time_ns:u8 step:u4 phase:u2 waiting:u2 microbatch:u2 since_ns:u8 "
        "heartbeat_ns:u8 collectives_entered:u4 collective_since_ns:u8 collective_group:u2 "
        "collective_op:u2 in_collective:u2 collective_bytes:u8 process_state:u2 "
        "cpu_seconds:f4 run_queue_seconds:f4 resident_bytes:u8 overruns:u4 torn:u4 "
        "hook_errors:u4 stage:i2 world:u4 gone_ns:u8 exit_code:i2 major_faults:f4 "
        "job_class:S32"
    ),
    7: (
        "rank:i4 seq:u8 time_ns:u8 step:u4 cpu_busy_ratio:f4 cpu_steal_ratio:f4 "
        "cpu_pressure_ratio:f4 memory_pressure_ratio:f4 io_pressure_ratio:f4 load_per_cpu:f4 "
        "memory_available_bytes:u8 memory_total_bytes:u8 major_faults_per_second:f4 "
        "neighbour_cpu_ratio:f4 neighbour_pid:u4 neighbour:S32"
    ),
    8: ("rank:i4 seq:u8 time_ns:u8 step:u4 first_seq:u8 last_seq:u8 text:S32"),
    9: ("rank:i4 seq:u8 time_ns:u8 step:u4 ring_id:u8 next_seq:u8"),
    10: (
        "rank:i4 seq:u8 time_ns:u8 step:u4 source:u2 nonfinite:u4 digest:u8 digest_group:u4 "
        "digest_part:u4 text:S40"
    ),
    11: (
        "rank:i4 seq:u8 time_ns:u8 step:u4 device:i4 allocated_bytes:u8 reserved_bytes:u8 "
        "limit_bytes:u8"
    ),
    12: (
        "rank:i4 seq:u8 time_ns:u8 step:u4 worker_answered:u2 stack_read:u2 gil:u2 "
        "enqueued:i8 completed:i8 function:S64 line:S128 stack:S512 note:S96"
    ),
    13: (
        "rank:i4 seq:u8 time_ns:u8 step:u4 group:S32 collective_seq:u8 op:S32 sizes:S96 state:S16"
    ),
    14: (
        "rank:i4 seq:u8 time_ns:u8 step:u4 device:i4 lost:i2 throttle:i8 xid:i4 xid_count:f4 "
        "busy_ratio:f4 memory_used_bytes:f8 memory_total_bytes:f8 clock_hertz:f8 "
        "clock_limit_hertz:f8 power_watts:f4 power_limit_watts:f4 temperature_celsius:f4 "
        "ecc_corrected:f8 ecc_uncorrected:f8 pcie_replays:f8 nvlink_errors:f8"
    ),
    15: (
        "rank:i4 seq:u8 time_ns:u8 step:u4 interface:S16 received_bytes:f8 sent_bytes:f8 "
        "errors:f8 drops:f8 carrier_changes:f8 speed_bits_per_second:f8 tcp_sent_segments:f8 "
        "tcp_retransmits:f8"
    ),
    16: (
        "rank:i4 seq:u8 time_ns:u8 step:u4 index:u2 stage:u2 microbatch:u2 phase:u2 "
        "weight_only:u2 began_ns:u8 blocked_ns:u8"
    ),
}
"""Layouts of format 2 as its last writer had them."""

EARLIER_FORMAT_2: tuple[dict[int, str], ...] = (
    {
        6: (
            "rank:i4 seq:u8 time_ns:u8 step:u4 phase:u2 waiting:u2 microbatch:u2 since_ns:u8 "
            "heartbeat_ns:u8 collectives_entered:u4 collective_since_ns:u8 "
            "collective_group:u2 collective_op:u2 in_collective:u2 process_state:u2 "
            "cpu_seconds:f4 run_queue_seconds:f4 resident_bytes:u8 overruns:u4 torn:u4 "
            "hook_errors:u4 stage:i2 world:u4 gone_ns:u8 major_faults:f4 job_class:S32"
        ),
    },
    {
        6: (
            "rank:i4 seq:u8 time_ns:u8 step:u4 phase:u2 waiting:u2 microbatch:u2 since_ns:u8 "
            "heartbeat_ns:u8 collectives_entered:u4 collective_since_ns:u8 "
            "collective_group:u2 collective_op:u2 in_collective:u2 process_state:u2 "
            "cpu_seconds:f4 run_queue_seconds:f4 resident_bytes:u8 overruns:u4 torn:u4 "
            "hook_errors:u4 stage:i2 world:u4 gone_ns:u8 job_class:S32"
        ),
        7: (
            "rank:i4 seq:u8 time_ns:u8 step:u4 cpu_busy_ratio:f4 cpu_steal_ratio:f4 "
            "cpu_pressure_ratio:f4 memory_pressure_ratio:f4 io_pressure_ratio:f4 "
            "load_per_cpu:f4 memory_available_bytes:u8 memory_total_bytes:u8 "
            "major_faults_per_second:f4"
        ),
    },
)
"""Where earlier writers of format 2 differ, newest first: its number did not change with them."""
