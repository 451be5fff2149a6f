"""Reads each probe in a process of its own, which can be killed when its source hangs."""
