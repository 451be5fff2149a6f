"""How right the verdicts on scenarios are."""
