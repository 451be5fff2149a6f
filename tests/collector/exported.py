"""What a service exports, as a scrape reads it."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.web.metrics import JobExporter
from stepwatch.signals import names


def metric(service: Service, name: names.Metric) -> float:
    """The value of the first series of a metric."""
    registry = CollectorRegistry()
    registry.register(JobExporter(service))
    lines = generate_latest(registry).decode().splitlines()
    return float(next(line for line in lines if line.startswith(name.name)).split()[-1])
