"""What interrupts training is recognised while it lasts."""
