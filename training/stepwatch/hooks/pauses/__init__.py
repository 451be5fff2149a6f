"""Recognises what interrupts training, evaluations and saves, while it lasts and from outside."""
