"""Link addresses in an alert's annotations."""

from __future__ import annotations

from dataclasses import dataclass

from stepwatch.signals.names import JOB
from stepwatch.signals.places import DEFAULT_COLLECTOR

DEFAULT_RUNBOOKS = f"{DEFAULT_COLLECTOR}/runbooks"
DEFAULT_GRAFANA = "http://127.0.0.1:3000"


@dataclass(frozen=True)
class Links:
    """Addresses in the annotations.

    `dashboard` is the job dashboard's address, and `page` the collector's address for browsers.
    """

    runbooks: str
    dashboard: str
    page: str = DEFAULT_COLLECTOR

    def runbook(self, alert: str) -> str:
        """Return the address of an alert's runbook."""
        return f"{self.runbooks.rstrip('/')}/{alert}"

    def runbook_of(self, alert: str, job: str) -> str:
        """Return the runbook's address with one job's values, or with a template's."""
        return f"{self.runbook(alert)}?job={job}"

    def dashboard_of(self, job: str) -> str:
        """Return the dashboard's address for one job, or for a template."""
        return f"{self.dashboard}?var-job={job}"


JOB_TEMPLATE = f"{{{{ $labels.{JOB} }}}}"
"""The template that Prometheus replaces with the alert's job."""
