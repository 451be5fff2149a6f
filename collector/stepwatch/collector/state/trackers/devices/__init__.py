"""Step times on devices, and device utilisation."""
