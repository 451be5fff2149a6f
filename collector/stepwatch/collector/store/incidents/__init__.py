"""Incidents, and the notices of their transitions."""

from .documents import Incidents, put_incidents

__all__ = ["Incidents", "put_incidents"]
