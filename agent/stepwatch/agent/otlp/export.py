"""Sends node metrics over OTLP/HTTP periodically, in its own thread.

The agent's loop is not involved: the thread reads the newest readings, as a `/metrics` scrape
does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stepwatch import signals
from stepwatch.agent.supervision import SupervisedThread
from stepwatch.signals import traces
from stepwatch.signals.clock import Clock
from stepwatch.signals.otlp.points import Group, Point
from stepwatch.signals.otlp.sending import MetricsSender


class MetricsExporter(MetricsSender):
    """Send the result of `points` every `seconds` until `close`, as a `MetricsSender`.

    Raises:
        ConfigurationError: the OpenTelemetry SDK is missing.
    """

    def __init__(
        self,
        endpoint: str | None,
        node: str,
        points: Callable[[], list[Point]],
        clock: Clock,
        seconds: float | None = None,
    ) -> None:
        super().__init__(endpoint, self._node_group, seconds)
        self._points, self._clock = points, clock
        self._resource = {
            "service.name": "stepwatch-agent",
            "service.namespace": traces.SERVICE_NAMESPACE,
            "service.version": signals.__version__,
            traces.NODE: node,
        }
        self.thread = SupervisedThread("otlp-metrics", self.run, clock)
        self.thread.start()

    def close(self) -> None:
        """End the thread within two seconds; pending points are dropped."""
        super().close()
        self.thread.join(2.0)

    def _node_group(self) -> Iterator[Group]:
        points = self._points()
        if points:
            yield Group(self._resource, points, self._clock.wall_ns())
