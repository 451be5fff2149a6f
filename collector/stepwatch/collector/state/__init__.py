"""The state of each job, folded from its records."""
