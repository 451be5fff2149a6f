"""What a watched model does in a step, found without marks of the trainer."""
