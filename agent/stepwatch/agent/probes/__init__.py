"""A probe reads one source on the node; one folder each, found by `registry.discover`."""

from .probe import Gauge, Probe, ProbeContext

__all__ = ["Gauge", "Probe", "ProbeContext"]
