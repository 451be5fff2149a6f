"""State of a live job outside its evaluation: its lock, and its position in its log."""
