"""Two runs compared: how fast, how sure that is, and what changed between them."""
