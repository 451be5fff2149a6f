"""Node faults that agents reported, stored by node across jobs."""

from .reading import NodeRow, newest_sightings, node_rows, sightings_of
from .reports import Report, Sighted, report_of
from .writing import NodeReports

__all__ = [
    "NodeReports",
    "NodeRow",
    "Report",
    "Sighted",
    "newest_sightings",
    "node_rows",
    "report_of",
    "sightings_of",
]
