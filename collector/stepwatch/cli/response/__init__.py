"""What people do about incidents, at the command line."""
