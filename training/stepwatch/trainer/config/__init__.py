"""Configuration: options, flags and files, and what of them can be checked without torch."""
