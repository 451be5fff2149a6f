"""Sends job metrics over OTLP in a thread that no evaluation waits for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

from prometheus_client.core import Metric

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.state.live import CONTAINED
from stepwatch.collector.web.exported.families import counter
from stepwatch.collector.web.metrics import JOB_METRICS, MAX_JOBS
from stepwatch.signals import names
from stepwatch.signals.otlp.points import Group
from stepwatch.signals.otlp.sending import MetricsSender

from .points import groups_of

logger = logging.getLogger(__name__)


class JobMetricsSender(MetricsSender):
    """Sends what a `/metrics` scrape reads about each job evaluated here, as a `MetricsSender`.

    Raises:
        ConfigurationError: the OpenTelemetry SDK is missing.
    """

    def __init__(
        self, service: Service, endpoint: str | None, seconds: float | None = None
    ) -> None:
        super().__init__(endpoint, self._job_groups, seconds)
        self._service = service
        self._thread = threading.Thread(target=self._survive, name="otlp", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """End the thread within two seconds; pending points are dropped."""
        super().close()
        if self._thread.ident is not None:
            self._thread.join(2.0)

    def collect(self) -> Iterator[Metric]:
        """Yield the number of points by outcome."""
        outcomes = ("exported", "dropped", "rejected")
        samples = [((outcome,), float(getattr(self, outcome))) for outcome in outcomes]
        yield counter(names.COLLECTOR_OTLP_POINTS, samples)

    def _survive(self) -> None:
        while not self.is_closed:
            try:
                self.run()
            except CONTAINED:
                logger.exception("metrics over OTLP: a defect of stepwatch; the next ones are sent")

    def _job_groups(self) -> Iterator[Group]:
        yield from groups_of(self._service.answers(JOB_METRICS, MAX_JOBS))
