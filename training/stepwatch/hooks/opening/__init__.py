"""This process's rank, and its ring's path."""
