"""Probes in their own processes, which can be killed when a source hangs."""
