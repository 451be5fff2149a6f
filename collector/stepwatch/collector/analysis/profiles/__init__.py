"""Profiles of a slow rank and of a healthy peer, compared."""

from .comparison import Comparison, Excess, Pattern, compare
from .document import comparison_document
from .sentence import sentence
from .trace import Profile, read_profile

__all__ = [
    "Comparison",
    "Excess",
    "Pattern",
    "Profile",
    "compare",
    "comparison_document",
    "read_profile",
    "sentence",
]
