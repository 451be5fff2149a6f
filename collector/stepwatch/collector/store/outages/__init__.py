"""Handling of a store that is down, lost its file, or is damaged."""
