"""Facts about this node: each fault that a probe finds, with its start, count and end."""
