"""Profiles of ranks on this node, asked for from outside through their worker servers."""

from .asking import Outcome, RankServer, profile_ranks, running_ranks

__all__ = ["Outcome", "RankServer", "profile_ranks", "running_ranks"]
