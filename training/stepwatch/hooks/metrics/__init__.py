"""Numbers that a trainer records under its own names, for steps and for evaluations."""
