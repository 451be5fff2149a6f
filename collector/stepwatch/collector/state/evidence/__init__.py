"""Evidence that a rank is slow, accumulated over all steps: how sure it is, and what it costs."""
