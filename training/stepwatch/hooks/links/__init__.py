"""What connects a run to others: lines on the terminal, the user's logs, experiment trackers."""
