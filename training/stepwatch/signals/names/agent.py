"""Metrics that the agent exports about its node and itself."""

from __future__ import annotations

from .labels import DIRECTION, INTERFACE, JOB, KIND, NODE, OUTCOME
from .metric import Metric, MetricKind

_G, _C = MetricKind.GAUGE, MetricKind.COUNTER

NODE_CPU_BUSY = Metric("stepwatch_node_cpu_busy_ratio", _G, "Busy share of all CPUs.", (NODE,))
NODE_CPU_STEAL = Metric(
    "stepwatch_node_cpu_steal_ratio", _G, "Share of CPU time taken by the hypervisor.", (NODE,)
)
NODE_PRESSURE = Metric(
    "stepwatch_node_pressure_ratio",
    _G,
    "Share of the last 10 s in which some task stalled on the resource (PSI).",
    (NODE, "resource"),
)
NODE_MEMORY_AVAILABLE = Metric(
    "stepwatch_node_memory_available_bytes", _G, "Memory available without swapping.", (NODE,)
)
NODE_MEMORY_TOTAL = Metric("stepwatch_node_memory_bytes", _G, "Memory of the node.", (NODE,))
NODE_LOAD = Metric(
    "stepwatch_node_load_per_cpu", _G, "Load average over a minute, for each CPU.", (NODE,)
)
NODE_MAJOR_FAULTS = Metric(
    "stepwatch_node_major_faults_per_second",
    _G,
    "Page faults of the node that had to wait for a disk.",
    (NODE,),
)
NODE_NETWORK_BYTES = Metric(
    "stepwatch_node_network_bytes_total",
    _C,
    "Bytes that a network interface received and sent, without traffic that bypasses the kernel "
    "(RDMA).",
    (NODE, INTERFACE, DIRECTION),
)
NODE_NETWORK_FAULTS = Metric(
    "stepwatch_node_network_faults_total",
    _C,
    "Errors and dropped packets of a network interface, and changes of its carrier, by kind.",
    (NODE, INTERFACE, KIND),
)
NODE_TCP_RETRANSMITS = Metric(
    "stepwatch_node_tcp_retransmits_total", _C, "TCP segments that the node sent again.", (NODE,)
)
NODE_RANKS = Metric("stepwatch_node_ranks", _G, "Ranks with a live ring on this node.", (NODE, JOB))
NODE_RANK_STEP_MIN = Metric(
    "stepwatch_node_rank_step_min", _G, "Lowest current step of this node's ranks.", (NODE, JOB)
)
NODE_RANK_OVERRUNS = Metric(
    "stepwatch_node_rank_overruns",
    _G,
    "Records that this node's ranks overwrote before they were read, since each began.",
    (NODE, JOB),
)
NODE_RANK_TORN = Metric(
    "stepwatch_node_rank_torn_records",
    _G,
    "Records of this node's ranks that were damaged when read, since each began.",
    (NODE, JOB),
)
NODE_HOOK_ERRORS = Metric(
    "stepwatch_node_hook_errors",
    _G,
    "Errors that the hooks of this node's ranks contained, since each began.",
    (NODE, JOB),
)
NODE_RANK_NON_FINITE = Metric(
    "stepwatch_node_rank_non_finite_records_total",
    _C,
    "Records of this node's ranks of a loss or gradient that is not finite, but for steps that a "
    "loss scaler leaves out; a job has one while its ranks are here.",
    (NODE, JOB),
)
AGENT_RECORDS = Metric("stepwatch_agent_records_total", _C, "Records read from rings.", (NODE,))
AGENT_OVERRUNS = Metric(
    "stepwatch_agent_overruns_total", _C, "Records overwritten before they were read.", (NODE,)
)
AGENT_RINGS_UNREAD = Metric(
    "stepwatch_agent_rings_unread",
    _G,
    "Rings that are not read: beyond the bound of a user, malformed, unreadable, or elsewhere.",
    (NODE, "reason"),
)
AGENT_ENDED_RINGS = Metric(
    "stepwatch_agent_ended_rings",
    _G,
    "Rings of ranks that have ended, which wait for the collector or cannot be removed.",
    (NODE,),
)
AGENT_OS_ERRORS = Metric(
    "stepwatch_agent_os_errors_total",
    _C,
    "Errors of the operating system that the agent survived, by name: EMFILE, ENOSPC, ENOMEM.",
    (NODE, "error"),
)
AGENT_SPOOL_BYTES = Metric(
    "stepwatch_agent_spool_bytes", _G, "Bytes waiting in the spool.", (NODE,)
)
AGENT_SPOOL_SEGMENTS = Metric(
    "stepwatch_agent_spool_segments", _G, "Segments waiting in the spool.", (NODE,)
)
AGENT_SPOOL_DROPPED = Metric(
    "stepwatch_agent_spool_dropped_total", _C, "Segments dropped from a full spool.", (NODE,)
)
AGENT_HELD_SEGMENTS = Metric(
    "stepwatch_agent_held_segments",
    _G,
    "Segments kept until a collector can read their format.",
    (NODE,),
)
AGENT_UNREADABLE_SEGMENTS = Metric(
    "stepwatch_agent_unreadable_segments",
    _G,
    "Segments in the spool with unreadable files; they count as held, and wait.",
    (NODE,),
)
AGENT_REFUSED = Metric(
    "stepwatch_agent_refused_segments_total",
    _C,
    "Segments that the collector refused; the newest are kept beside the spool.",
    (NODE,),
)
AGENT_SEND_FAILURES = Metric(
    "stepwatch_agent_send_failures_total", _C, "Sends that the collector did not accept.", (NODE,)
)
AGENT_COLLECTOR_PROBLEM = Metric(
    "stepwatch_agent_collector_problem",
    _G,
    "1 while the collector takes nothing, with the reason; the log has a line on it.",
    (NODE, "reason"),
)
AGENT_THREAD_FAILURES = Metric(
    "stepwatch_agent_thread_failures_total",
    _C,
    "Times a thread of the agent ended with an error and was started again.",
    (NODE, "thread"),
)
AGENT_SPANS = Metric(
    "stepwatch_agent_spans_total",
    _C,
    "Spans by outcome: exported, dropped here, rejected by their receiver.",
    (NODE, OUTCOME),
)
AGENT_TRACED_STEPS = Metric(
    "stepwatch_agent_traced_steps_total",
    _C,
    "Traced steps of ranks on this node.",
    (NODE, JOB),
)
AGENT_TRACED_STEP_SECONDS = Metric(
    "stepwatch_agent_traced_step_seconds_total",
    _C,
    "How long those steps took; its exemplar leads to the trace of a new one.",
    (NODE, JOB),
)
AGENT_OTLP_POINTS = Metric(
    "stepwatch_agent_otlp_points_total",
    _C,
    "Values sent over OTLP by outcome: exported, dropped here, rejected by their receiver.",
    (NODE, OUTCOME),
)
PROBE_UP = Metric(
    "stepwatch_agent_probe_up", _G, "1 while the probe's source can be read.", (NODE, "probe")
)
PROBE_UNKNOWN = Metric(
    "stepwatch_agent_probe_unknown",
    _G,
    "1 while the reading of a probe that once had a source is unknown, with the reason.",
    (NODE, "probe", "reason"),
)
PROBE_CRASHES = Metric(
    "stepwatch_agent_probe_crashes_total",
    _C,
    "Times the process of a probe (shared: of several) was ended by a signal not of the agent.",
    (NODE, "probe", "signal"),
)
NODE_FACTS = Metric(
    "stepwatch_node_facts",
    _G,
    "Facts that probes find wrong with this node now, by kind and severity.",
    (NODE, "fact", "severity"),
)
