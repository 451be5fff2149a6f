"""Steps, collectives and pipelines in a run: pure arithmetic over state."""
