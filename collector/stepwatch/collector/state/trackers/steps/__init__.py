"""Steps of an attempt: history, window, baselines, evidence, and when each step is settled."""
