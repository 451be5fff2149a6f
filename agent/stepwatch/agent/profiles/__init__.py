"""Profiles of ranks on this node, asked for from outside through their worker servers."""

from .asking import Outcome, RankRequest, RankServer, first_step, profile_ranks
from .finding import find_ranks
from .stacks import StackSamples, sample_ranks

__all__ = [
    "Outcome",
    "RankRequest",
    "RankServer",
    "StackSamples",
    "find_ranks",
    "first_step",
    "profile_ranks",
    "sample_ranks",
]
