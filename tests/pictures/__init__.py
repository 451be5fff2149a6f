"""Photographs of the page for the documents: every view, light, dark and on a phone."""
