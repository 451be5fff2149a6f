"""A watched model's phases in a step, found without the trainer's marks."""
