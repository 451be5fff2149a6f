"""Loops in the styles of known trainers, and what each rank itself knows of its run."""
