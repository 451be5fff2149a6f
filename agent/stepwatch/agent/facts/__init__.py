"""Facts about this node: each fault that a probe finds, with its start, count and end."""

from .book import FactBook, KnownFact
from .sighting import Sighting

__all__ = ["FactBook", "KnownFact", "Sighting"]
