"""Segments arrive, are validated and stored."""
