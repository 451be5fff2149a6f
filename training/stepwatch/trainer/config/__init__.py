"""Configuration: options, flags and files, and the checks that need no torch."""
