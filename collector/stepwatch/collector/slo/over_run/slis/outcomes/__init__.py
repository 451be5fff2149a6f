"""Outcomes of attempts and jobs, and the cost of interruptions."""
