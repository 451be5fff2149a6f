"""Ingest of segments: validation and storage."""
