"""What devices time, and how busy they are."""
