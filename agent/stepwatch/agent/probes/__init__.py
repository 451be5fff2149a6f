"""Each probe reads one source on the node; `registry.discover` finds one per folder."""

from .probe import Gauge, Probe, ProbeContext

__all__ = ["Gauge", "Probe", "ProbeContext"]
