"""What segments claim, and what of it is believed: nodes of ranks, worlds, attempts."""
