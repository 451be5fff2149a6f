"""The local ranks' rings, and their processes."""
