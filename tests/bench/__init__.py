"""Benchmarks: the budgets of design section 10, side by side with a baseline in one run."""
