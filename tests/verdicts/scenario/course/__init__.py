"""What the ranks of a scenario do when, and how long it takes them."""
