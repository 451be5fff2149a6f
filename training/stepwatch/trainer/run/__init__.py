"""A run from start to end: launch, session, training loop, history, result and preemption."""
