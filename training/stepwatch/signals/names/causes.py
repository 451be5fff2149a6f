"""Causes in findings, incidents and alerts."""

from __future__ import annotations

from enum import StrEnum


class Cause(StrEnum):
    """The cause of a problem, in findings, incidents and the metric label `cause`."""

    UNKNOWN = "unknown"
    # A rank works longer than its peers; no node fact explains it.
    SLOW_COMPUTE = "slow-compute"
    SLOW_DATA = "slow-data"
    # The rank's device waits for work: its host enqueues too late.
    LAUNCH_BOUND = "launch-bound"
    # Facts about the rank's node that explain it.
    CPU_CONTENTION = "cpu-contention"
    CPU_STEAL = "cpu-steal"
    MEMORY_PRESSURE = "memory-pressure"
    IO_PRESSURE = "io-pressure"
    PAGE_FAULTS = "page-faults"
    THERMAL_THROTTLE = "thermal-throttle"
    POWER_CAP = "power-cap"
    LOW_CLOCKS = "low-clocks"
    ECC_ERRORS = "ecc-errors"
    XID = "xid"
    NIC_ERRORS = "nic-errors"
    # Reasons why a rank did not arrive.
    PROCESS_GONE = "process-gone"
    PROCESS_STOPPED = "process-stopped"
    UNINTERRUPTIBLE_IO = "uninterruptible-io"
    INTERPRETER_BLOCKED = "interpreter-blocked"
    BUSY = "busy"
    NOT_ARRIVED = "not-arrived"
    # Its device does not finish its work, while its host has continued.
    DEVICE_STUCK = "device-stuck"
    MISMATCHED_ORDER = "mismatched-order"
    MISMATCHED_SHAPE = "mismatched-shape"
    EXCEPTION = "exception"
    # A node is lost with its ranks: it reports nothing, and its peers lost their connections to it.
    NODE_LOST = "node-lost"
    # Effects from the data, the pipeline, the network or the storage on all ranks.
    UNEVEN_SHARDS = "uneven-shards"
    STAGE_IMBALANCE = "stage-imbalance"
    FEW_MICROBATCHES = "few-microbatches"
    SLOW_TRANSFER = "slow-transfer"
    SLOW_STORAGE = "slow-storage"
    ALL_RANKS_SLOWER = "all-ranks-slower"
    # Findings in the numbers.
    LOSS_SPIKE = "loss-spike"
    LOSS_PLATEAU = "loss-plateau"
    LOSS_DIVERGENCE = "loss-divergence"
    # Reasons for a risen loss, named where the recorded numbers show them.
    LEARNING_RATE = "learning-rate"
    DATA_SHARD = "data-shard"
    NON_FINITE_GRADIENT = "non-finite-gradient"
    NON_FINITE_LOSS = "non-finite-loss"
    REPLICA_MISMATCH = "replica-mismatch"
    # Replicas that train apart: a difference from the code, not from a device.
    NO_GRADIENT_EXCHANGE = "no-gradient-exchange"
    DIFFERENT_START = "different-start"
    SKIPPED_STEPS = "skipped-steps"
    HOST_MEMORY = "host-memory"
    DEVICE_MEMORY = "device-memory"
    # Problems that probes found on the rank's node.
    OUT_OF_MEMORY = "out-of-memory"
    DEVICE_LOST = "device-lost"
    DEVICE_FAULT = "device-fault"
    DRIVER_HANGS = "driver-hangs"
    KERNEL_FAULT = "kernel-fault"
    STORAGE_FAULT = "storage-fault"
    NETWORK_FAULT = "network-fault"
    LIBRARY_CRASH = "library-crash"
    CONTAINER_LIMIT = "container-limit"
    NUMA_MISPLACED = "numa-misplaced"
    # Reasons in a rank's last lines for its end; memory, faults and storage have causes above.
    SHARED_MEMORY = "shared-memory"
    DATA_WORKER_KILLED = "data-worker-killed"
    DEVICE_ASSERT = "device-assert"
    DEVICE_ERROR = "device-error"
    DISK_FULL = "disk-full"
    FILE_LIMIT = "file-limit"
    ADDRESS_IN_USE = "address-in-use"
    PERMISSION_DENIED = "permission-denied"
    MISSING_FILE = "missing-file"
    IMPORT_ERROR = "import-error"
    CHECKPOINT_MISMATCH = "checkpoint-mismatch"
    # It loaded a checkpoint of this job, and ended before its first step for another reason.
    FAILED_RESUME = "failed-resume"
    ASSERTION = "assertion"
    ACCESS_DENIED = "access-denied"
    RATE_LIMITED = "rate-limited"
    PREEMPTED = "preempted"
    ILLEGAL_INSTRUCTION = "illegal-instruction"
    NATIVE_CRASH = "native-crash"
    # Files of a checkpoint are missing or wrong, or a load of them would run foreign code.
    DAMAGED_FILES = "damaged-files"
    # Reasons why telemetry is missing.
    AGENTS_STALE = "agents-stale"
    NODE_STALE = "node-stale"
    NOT_WATCHED = "not-watched"
