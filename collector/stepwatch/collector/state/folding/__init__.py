"""Several segments folded in at once: their tables joined, which go together, and numpy helpers."""
