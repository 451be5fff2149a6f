"""A run's facts: its configuration, code, data and environment, written once by rank 0."""
