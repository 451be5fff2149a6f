"""What allocated device-time went to."""
