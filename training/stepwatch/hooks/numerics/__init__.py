"""Values that are not finite, replicas that differ, and numbers that come late from a device."""
