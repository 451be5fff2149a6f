"""What looks after a store: its size, what it need not keep, whether it is sound, its copies."""
