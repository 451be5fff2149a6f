"""Loops in the styles of known trainers, and each rank's diary of its run."""
