"""Scenarios on real processes, with faults from outside."""
