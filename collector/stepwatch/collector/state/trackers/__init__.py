"""The trackers of an attempt, one file each; the registry finds them here and below."""
