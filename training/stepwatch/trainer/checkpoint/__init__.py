"""Checkpoints that cannot be wrong: written aside, digested, published at once, verified, kept."""
