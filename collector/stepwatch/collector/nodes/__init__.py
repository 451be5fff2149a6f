"""Node health: each node's state, history, and fault count, and faults that many nodes share.

Pure except for `fleet`, which reads the store.
"""
