"""Checklists as data, and the checks that a collector can answer."""
