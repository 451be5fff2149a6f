"""Non-finite values, replicas that differ, and numbers that a device delivers late."""
