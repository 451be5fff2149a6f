"""Where the annotations of an alert lead."""

from __future__ import annotations

from dataclasses import dataclass

from stepwatch.signals.names import JOB
from stepwatch.signals.places import DEFAULT_COLLECTOR

DEFAULT_RUNBOOKS = f"{DEFAULT_COLLECTOR}/runbooks"
DEFAULT_GRAFANA = "http://127.0.0.1:3000"


@dataclass(frozen=True)
class Links:
    """Addresses that the annotations name; `dashboard` is the job dashboard's own address, and
    `page` where browsers reach the collector."""

    runbooks: str
    dashboard: str
    page: str = DEFAULT_COLLECTOR

    def runbook(self, alert: str) -> str:
        """Address of an alert's runbook."""
        return f"{self.runbooks.rstrip('/')}/{alert}"

    def runbook_of(self, alert: str, job: str) -> str:
        """Address of the runbook with the values of one job, or of a template that names it."""
        return f"{self.runbook(alert)}?job={job}"

    def dashboard_of(self, job: str) -> str:
        """Address of the dashboard, opened on one job or on a template that names it."""
        return f"{self.dashboard}?var-job={job}"


JOB_TEMPLATE = f"{{{{ $labels.{JOB} }}}}"
"""What Prometheus replaces by the job of the alert."""
