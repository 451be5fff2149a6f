"""Bundles: many consecutive segments from one job, stored as one row."""
