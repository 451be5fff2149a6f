"""A job's history over time: curves, device-time by cause, marks, and the matrix of ranks."""

from .routes import SHARED, HistoryApi

__all__ = ["SHARED", "HistoryApi"]
