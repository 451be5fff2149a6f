"""What a run is made of: its configuration, code, data and environment, written once by rank 0."""
