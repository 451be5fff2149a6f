"""Segments on disk until the collector has them."""

from .queue import BATCH_BYTES, DEFAULT_LIMIT_BYTES, Spool

__all__ = ["BATCH_BYTES", "DEFAULT_LIMIT_BYTES", "Spool"]
