"""Checks for `stepwatch doctor` that need the trainer's code, which the agent does not import."""
