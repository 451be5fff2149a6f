"""Evaluation of one job, and its results."""
