"""Profiles of a slow rank and of a healthy peer, compared."""

from .comparison import Comparison, Excess, Pattern, compare
from .document import comparison_document
from .sentence import sentence
from .stacks import StackDifference, compare_stacks, read_shares, stack_sentence
from .trace import Profile, read_profile

__all__ = [
    "Comparison",
    "Excess",
    "Pattern",
    "Profile",
    "StackDifference",
    "compare",
    "compare_stacks",
    "comparison_document",
    "read_profile",
    "read_shares",
    "sentence",
    "stack_sentence",
]
