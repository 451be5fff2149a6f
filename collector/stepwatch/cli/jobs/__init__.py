"""A job in words, and its name."""
