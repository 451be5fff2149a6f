"""Comparison between two runs: speed, confidence and changes."""
