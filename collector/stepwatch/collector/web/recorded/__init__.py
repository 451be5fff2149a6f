"""Numbers that a job's trainer recorded, as JSON."""
