"""Probabilities, intervals, medians, and changes in a series: pure arithmetic on arrays."""
