"""Segments over HTTP: bodies that arrive, and the turns of those that have."""

from .segments import SegmentsApi

__all__ = ["SegmentsApi"]
