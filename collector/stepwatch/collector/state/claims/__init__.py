"""Claims in segments, and which are accepted: owner nodes of ranks, world sizes, attempts."""
