"""Dashboard "Training: fabric": do jobs wait for the network or a link?"""

from __future__ import annotations

from stepwatch.dashboards import fleet, frame
from stepwatch.dashboards.annotations import annotated
from stepwatch.dashboards.drill_down import NODE_LINK, facts, job_table
from stepwatch.dashboards.layout import Section, place
from stepwatch.dashboards.panels import NONE_KNOWN, Line, Metadata, Panel, lines, linked, number
from stepwatch.dashboards.sdk import builders
from stepwatch.dashboards.sections import ANY, legend, runbook
from stepwatch.dashboards.thresholds import Thresholds
from stepwatch.signals import names
from stepwatch.signals.names import (
    DEVICE_METRICS,
    DIRECTION,
    INTERFACE,
    KIND,
    NODE,
    NODE_FACTS,
    FindingKind,
)

UID = "stepwatch-fabric"
FILE = "fabric.json"
TITLE = "Training: fabric"

_ABOUT_LINKS = f'{NODE_FACTS.labels[1]}=~"port-.*|nvlink-.*|pcie-.*"'
_SLOW = f'{KIND}="{FindingKind.SLOW_COLLECTIVE.value}"'


def build(thresholds: Thresholds) -> builders.Dashboard:
    """Build the dashboard; `finalise.text` turns it into its file."""
    description = (
        "Is the network at fault: who waits in collectives, and which node's cards or links drop, "
        "err or resend. Traffic that bypasses the kernel (RDMA) is not counted."
    )
    page = annotated(frame.page(TITLE, UID, description, thresholds), several=True)
    page = frame.of_jobs(page)
    for alert in (names.ALERT_SLOW_COLLECTIVE, names.ALERT_NODE_FAULT):
        page = page.link(runbook(thresholds, alert))
    return place(page, [_wrong(), _waits(), _cards(), _links()])


def _wrong() -> Section:
    slow = Metadata("Jobs with slow collectives", "Open incidents, chosen jobs.", "none", 6)
    link_faults = Metadata(
        "Faults of links", "Of ports, NVLink and PCIe, found by probes.", "none", 6, NONE_KNOWN
    )
    shared = Metadata(
        "Faults shared by many", "A switch or a rail: look for the nodes' common part.", "none", 6
    )
    resent = Metadata("TCP segments sent again", "Per second, all nodes.", "none", 6)
    incidents = fleet.of_jobs(names.INCIDENT_OPEN, matching=_SLOW)
    # A sum over no series is no data: nodes without a fact have no such series.
    faults = f"sum({NODE_FACTS.name}{{{_ABOUT_LINKS}}})"
    return Section(
        "Is the fabric at fault",
        [
            number(slow, Line(fleet.total(incidents)), ANY),
            number(link_faults, Line(faults), ANY),
            number(shared, Line(fleet.of_all(names.COLLECTOR_NODES_TOGETHER)), ANY),
            number(resent, Line(fleet.total(fleet.rate_by_node(names.NODE_TCP_RETRANSMITS)))),
            linked(facts(_ABOUT_LINKS).span(24), "node", *NODE_LINK),
        ],
    )


def _waits() -> Section:
    waits = Metadata(
        "Ranks that wait in collectives",
        "Seconds of waiting per second, over all ranks of a job: how many ranks wait.",
        "none",
        16,
    )
    exposed = fleet.worst(fleet.rate_of_jobs(names.COLLECTIVE_EXPOSED_SECONDS))
    now = Metadata("Most waiting jobs", "Ranks that wait, on average.", "none")
    return Section(
        "Who waits",
        [
            lines(waits, Line(exposed, legend(names.JOB))),
            job_table(now, exposed, "ranks").height(8),
        ],
    )


def _busiest(title: str, text: str, unit: str, expr: str, *labels: str) -> Panel:
    return lines(Metadata(title, text, unit), Line(fleet.worst(expr), legend(NODE, *labels)))


def _cards() -> Section:
    received, sent = (
        fleet.rate_by_node(names.NODE_NETWORK_BYTES, matching=f'{DIRECTION}="{way}"')
        for way in ("received", "sent")
    )
    faults = fleet.rate_by_node(names.NODE_NETWORK_FAULTS, INTERFACE, KIND)
    resent = fleet.rate_by_node(names.NODE_TCP_RETRANSMITS)
    return Section(
        "Network cards, the busiest twenty nodes",
        [
            _busiest("Received", "All interfaces of a node.", "Bps", received),
            _busiest("Sent", "All interfaces of a node.", "Bps", sent),
            _busiest("TCP segments sent again", "Per second; packets were lost.", "none", resent),
            lines(
                Metadata(
                    "Errors, drops, flaps", "By node and interface.", "eps", 24, "none counted"
                ),
                Line(fleet.worst(f"{faults} > 0"), legend(NODE, INTERFACE, KIND)),
            ),
        ],
    )


def _links() -> Section:
    def carried(link: str) -> str:
        directions = (
            fleet.of_each_device(DEVICE_METRICS[f"{link}_{way}_bytes_per_second"], "sum")
            for way in ("received", "sent")
        )
        return " + ".join(directions)

    def rises(field: str) -> str:
        return fleet.rate_by_node(DEVICE_METRICS[field])

    nothing_lost = "Each resend costs time; errors end in a lost device."
    return Section(
        "Links of devices, the busiest twenty nodes",
        [
            _busiest("NVLink", "Both ways, all devices of a node.", "Bps", carried("nvlink")),
            _busiest("PCIe", "Both ways, all devices of a node.", "Bps", carried("pcie")),
            lines(
                Metadata("Errors of links", nothing_lost, "eps"),
                Line(fleet.worst(rises("pcie_replays")), f"{legend(NODE)} PCIe replays"),
                Line(fleet.worst(rises("nvlink_errors")), f"{legend(NODE)} NVLink errors"),
            ),
        ],
    )
