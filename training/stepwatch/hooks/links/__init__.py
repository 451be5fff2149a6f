"""Connects a run with other tools: lines on the terminal, user logs, experiment trackers."""
