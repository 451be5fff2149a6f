"""Runbooks for the page, filled in with an incident's values."""
