"""Benchmarks: each measures a budget and its baseline in one run."""
