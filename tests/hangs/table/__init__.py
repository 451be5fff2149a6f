"""What each legal wait and each real stall leads to: an incident, a page, and after how long."""
