"""Segments over HTTP: incoming bodies, and turns for storing them."""

from .segments import SegmentsApi

__all__ = ["SegmentsApi"]
