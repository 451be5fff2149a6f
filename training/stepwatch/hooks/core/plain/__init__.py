"""The paths of every step in plain Python."""
