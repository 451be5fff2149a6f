"""The verdict benchmark: real runs with and without faults, and what stepwatch reports on each."""
