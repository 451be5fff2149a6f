"""Which rank this process is, and where its ring lies."""
