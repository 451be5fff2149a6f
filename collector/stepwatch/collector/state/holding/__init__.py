"""What is held of a job while it is live: its lock, and its place in its log."""
