"""Uses of the allocated device-time."""
