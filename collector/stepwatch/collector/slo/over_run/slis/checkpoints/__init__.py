"""Cost and success of checkpoints."""
