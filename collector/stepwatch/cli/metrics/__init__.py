"""Metrics of a job as text."""
