"""Facts of this node: what probes find wrong, since when, how often, and when it is over."""

from .book import FactBook, KnownFact
from .sighting import Sighting

__all__ = ["FactBook", "KnownFact", "Sighting"]
