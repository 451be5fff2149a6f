"""Checks of `stepwatch doctor` that need the trainer's own code: the agent does without it."""
