"""Pauses of healthy runs that no hook recognises, recorded from real ranks."""
