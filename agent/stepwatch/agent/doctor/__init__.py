"""Preflight checks of a node: may a job start here? The same probes as the agent's, once."""

from .burn import Meeting
from .examination import CHECKS, Examined, examine
from .result import Outcome, Problem, Result

__all__ = ["CHECKS", "Examined", "Meeting", "Outcome", "Problem", "Result", "examine"]
