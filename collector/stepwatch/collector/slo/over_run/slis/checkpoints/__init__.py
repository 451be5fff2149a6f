"""What saving costs, and what it is worth."""
