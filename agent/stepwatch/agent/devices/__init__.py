"""Device readings from all sources: joined, exported and searched for faults."""

from .joined import DEVICE_PROBES, joined

__all__ = ["DEVICE_PROBES", "joined"]
