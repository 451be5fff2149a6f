"""The verdict benchmark: runs with and without faults, and the verdicts on each run."""
