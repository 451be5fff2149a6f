"""What every part of the hooks writes through: the timeline, the ring and what keeps them alive."""
