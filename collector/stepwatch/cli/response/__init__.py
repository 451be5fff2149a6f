"""Incident response at the command line."""
