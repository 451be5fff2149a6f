"""Benchmarks: the budgets, side by side with a baseline in one run."""
