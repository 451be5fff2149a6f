"""Evidence that a rank is slow, accumulated over all steps: its confidence and its cost."""
