"""Scenarios that a seed draws, replayed through the real collector on a simulated clock."""
