"""Bundles: many segments of one job at successive positions, stored as one row."""
