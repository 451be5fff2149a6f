"""Scenarios drawn by seed, replayed through the real collector on a moved clock."""
