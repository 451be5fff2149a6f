"""Findings grouped under one cause, with a lifecycle."""
