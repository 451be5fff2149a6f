"""What agents report of a scenario, and what the collector makes of it."""
