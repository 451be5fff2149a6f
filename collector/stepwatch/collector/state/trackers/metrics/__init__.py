"""Numbers that trainers record: their names, newest values and curves."""
