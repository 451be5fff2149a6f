"""Dashboard "Training: node and GPU": the fleet's nodes, then one node's devices and links."""

from __future__ import annotations

from stepwatch.dashboards import fleet, frame
from stepwatch.dashboards.drill_down import NODE_LINK, NODE_UID, facts, health
from stepwatch.dashboards.layout import Section, place
from stepwatch.dashboards.panels import (
    NONE_KNOWN,
    Line,
    Metadata,
    Panel,
    lines,
    linked,
    number,
    rows,
)
from stepwatch.dashboards.sdk import builders
from stepwatch.dashboards.sections import ANY, legend, runbook
from stepwatch.dashboards.thresholds import Thresholds
from stepwatch.signals import names
from stepwatch.signals.names import DEVICE_METRICS, JOB, PROBE_UNKNOWN, Metric

UID = NODE_UID
FILE = "nodes.json"
TITLE = "Training: node and GPU"

_DEVICE = "device"
_OF_DEVICE = legend(_DEVICE)


def build(thresholds: Thresholds) -> builders.Dashboard:
    """Build the dashboard; `finalise.text` turns it into its file."""
    description = "Is a node at fault: health of all, then one node, its devices and its links."
    chosen = frame.choice(frame.NODE_VARIABLE, "Node", frame.NODES)
    page = frame.page(TITLE, UID, description, thresholds).with_variable(chosen)
    page = page.link(runbook(thresholds, names.ALERT_NODE_FAULT))
    return place(page, [_all_nodes(), _node(), _probes(), _devices(), _heat(), _fabric()])


def _all_nodes() -> Section:
    repeat = Metadata("Repeat offenders", "Nodes at fault again and again within a month.", "none")
    shared = Metadata("Faults shared by many", "Look for the nodes' common part first.", "none")
    return Section(
        "All nodes",
        [
            health(),
            number(repeat, Line(fleet.of_all(names.COLLECTOR_NODES_OFFENDING)), ANY),
            number(shared, Line(fleet.of_all(names.COLLECTOR_NODES_TOGETHER)), ANY),
            linked(facts().span(24), "node", *NODE_LINK),
        ],
    )


def _over_time(title: str, text: str, unit: str, *shown: tuple[Metric, str]) -> Panel:
    shown_lines = [Line(fleet.of_node(metric), words) for metric, words in shown]
    return lines(Metadata(title, text, unit), *shown_lines)


def _node() -> Section:
    resource = names.NODE_PRESSURE.labels[-1]
    pressure = Metadata("Pressure", "Share of 10 s in which a task stalled.", "percentunit")
    stalled = Line(fleet.of_node(names.NODE_PRESSURE, resource), legend(resource))
    cpu = (names.NODE_CPU_BUSY, "busy"), (names.NODE_CPU_STEAL, "taken by the hypervisor")
    memory = (names.NODE_MEMORY_AVAILABLE, "available"), (names.NODE_MEMORY_TOTAL, "of the node")
    faults = names.NODE_MAJOR_FAULTS, "faults"
    return Section(
        "The chosen node",
        [
            _over_time("CPU", "Share of all CPUs' time.", "percentunit", *cpu),
            _over_time("Memory", "Available without swapping, and all.", "bytes", *memory),
            lines(pressure, stalled),
            _over_time("Load", "Over a minute, for each CPU.", "none", (names.NODE_LOAD, "load")),
            _over_time(
                "Major page faults", "Per second; faults that waited for a disk.", "none", faults
            ),
            _ranks(),
        ],
    )


def _ranks() -> Panel:
    metadata = Metadata("Ranks", "Ranks with a live ring on the node, by job.", "none")
    return lines(metadata, Line(fleet.of_node(names.NODE_RANKS, JOB), legend(JOB)))


def _probes() -> Section:
    _, probe, reason = PROBE_UNKNOWN.labels
    up = Metadata("Probes of the node", "1: its source can be read; 0: it cannot.", "none", 12)
    unknown = Metadata(
        "Unknown readings", "Probes without a reading, and why.", "none", 12, NONE_KNOWN
    )
    columns = {probe: "probe", reason: "reason", "Value": "unknown"}
    return Section(
        "Its known state",
        [
            rows(
                up,
                Line(fleet.of_node(names.PROBE_UP, probe, how="min")),
                columns={probe: "probe", "Value": "up"},
            ),
            rows(
                unknown,
                Line(f"{fleet.of_node(PROBE_UNKNOWN, probe, reason)} == 1"),
                columns=columns,
            ),
        ],
    )


def _gauge(field: str, words: str = "") -> Line:
    text = f"{_OF_DEVICE} {words}".strip()
    return Line(fleet.of_node(DEVICE_METRICS[field], _DEVICE), text)


def _rise(field: str, words: str) -> Line:
    expr = fleet.rise_of_node(DEVICE_METRICS[field], _DEVICE)
    return Line(expr, f"{_OF_DEVICE} {words}")


def _devices() -> Section:
    busy = Metadata("Busy", "Time with a kernel running, waits in collectives too.", "percentunit")
    work = Metadata("SM and tensor activity", "Time in which they worked.", "percentunit")
    dram = Metadata("Memory bandwidth", "Share of the bandwidth in use.", "percentunit")
    memory = Metadata("Device memory", "In use, and of the device.", "bytes", 12)
    lost = Metadata("Lost", "1: the driver counts the device and cannot reach it.", "none", 4)
    xid = Metadata("Newest XID", "Since the agent began; 0 for none.", "none", 4)
    mig = Metadata("Divided (MIG)", "1: the device is divided into instances.", "none", 4,
                   "the driver reports none")  # fmt: skip
    return Section(
        "Devices",
        [
            lines(busy, _gauge("busy_ratio")),
            lines(work, _gauge("sm_active_ratio", "SMs"), _gauge("tensor_active_ratio", "tensor")),
            lines(dram, _gauge("dram_active_ratio")),
            lines(memory, _gauge("memory_used_bytes"), _gauge("memory_total_bytes", "all")),
            number(lost, _gauge("lost"), ANY),
            number(xid, _gauge("xid"), ANY),
            number(mig, _gauge("mig")),
        ],
    )


def _heat() -> Section:
    clock = Metadata("Clock", "Of the multiprocessors, and its highest.", "hertz")
    power = Metadata("Power", "Drawn, and allowed.", "watt")
    heat = Metadata("Temperature", "Of the device.", "celsius")
    ecc = Metadata("Memory errors", "ECC errors of late.", "none", 24)
    uncorrected = _rise("ecc_uncorrected", "uncorrected")
    return Section(
        "Clocks, power and errors",
        [
            lines(clock, _gauge("clock_hertz"), _gauge("clock_limit_hertz", "limit")),
            lines(power, _gauge("power_watts"), _gauge("power_limit_watts", "limit")),
            lines(heat, _gauge("temperature_celsius")),
            lines(ecc, _rise("ecc_corrected", "corrected"), uncorrected),
        ],
    )


def _fabric() -> Section:
    return Section(
        "Links of its devices", [_link("nvlink", "NVLink"), _link("pcie", "PCIe"), _bad()]
    )


def _link(field: str, title: str) -> Panel:
    metadata = Metadata(title, "Received and sent by each device.", "Bps")
    sent = _gauge(f"{field}_sent_bytes_per_second", "sent")
    return lines(metadata, _gauge(f"{field}_received_bytes_per_second", "received"), sent)


def _bad() -> Panel:
    metadata = Metadata("Errors of links", "PCIe packets sent again and NVLink errors.", "none")
    return lines(metadata, _rise("pcie_replays", "PCIe"), _rise("nvlink_errors", "NVLink"))
