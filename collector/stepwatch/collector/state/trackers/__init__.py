"""The trackers for an attempt, one file each; the registry finds them in this folder tree."""
