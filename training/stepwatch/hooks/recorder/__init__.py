"""The common base of all hooks: the timeline, the ring and the threads that maintain them."""
