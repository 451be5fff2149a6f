"""The agents' reports of a scenario, and the collector's results."""
