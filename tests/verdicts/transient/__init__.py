"""Faults that end: seconds to their verdicts and to the end of their incidents, and true words."""
