"""The result of each legal wait and each real stall: an incident, a page, and their times."""
