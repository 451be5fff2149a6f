"""Typed fault injection, addressed by (rank, step), for drills and tests."""

from .injector import Injector
from .specs import FAULTS, Fault, parse_fault

__all__ = ["FAULTS", "Fault", "Injector", "parse_fault"]
