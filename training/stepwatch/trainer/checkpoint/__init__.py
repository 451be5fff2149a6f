"""Checkpoints: write, publish by a rename, verify, search, resume, retention."""
