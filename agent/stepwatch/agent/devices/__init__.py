"""Device readings from all sources: joined, exported and searched for faults."""
