"""The steps whose parameters and memory are read."""

from __future__ import annotations

EVERY = 8
"""Steps from one part to the next: two records each, within the budget of 200 B per rank-step."""
REPEATS = 2
"""Consecutive steps that digest the same part: the second confirms the first."""
