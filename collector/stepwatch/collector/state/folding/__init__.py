"""Folding several segments at once: joined tables, group boundaries, and numpy helpers."""
