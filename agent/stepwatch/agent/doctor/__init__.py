"""Preflight checks: may a job start on this node? They run the agent's probes once."""

from .burn import Meeting
from .examination import CHECKS, Examined, examine
from .result import Outcome, Problem, Result

__all__ = ["CHECKS", "Examined", "Meeting", "Outcome", "Problem", "Result", "examine"]
