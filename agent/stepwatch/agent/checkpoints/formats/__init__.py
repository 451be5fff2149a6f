"""File formats: each module reads one format's structure, without its tensor data."""
