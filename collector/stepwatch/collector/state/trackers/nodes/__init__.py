"""Agents' reports about nodes."""
