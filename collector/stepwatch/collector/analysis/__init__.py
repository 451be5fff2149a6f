"""What steps, collectives and pipelines say about a run: pure arithmetic over state."""
