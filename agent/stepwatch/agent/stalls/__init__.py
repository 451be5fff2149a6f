"""Inspects the ranks in a stalled attempt from outside."""
