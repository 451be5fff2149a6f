"""What the ranks of a stalled attempt are doing, asked from outside."""
