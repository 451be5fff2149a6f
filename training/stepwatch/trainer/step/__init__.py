"""One training step: forward and backward, gradient norm, statistics over all ranks, update."""
