"""What agents report of nodes."""
