"""Readings of devices, whoever read them: joined, exported, searched for faults."""

from .joined import DEVICE_PROBES, joined

__all__ = ["DEVICE_PROBES", "joined"]
