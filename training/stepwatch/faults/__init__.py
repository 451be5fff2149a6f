"""Typed fault injection, addressed by (rank, step): what drills and tests break on purpose."""

from .injector import Injector
from .specs import FAULTS, Fault, parse_fault

__all__ = ["FAULTS", "Fault", "Injector", "parse_fault"]
