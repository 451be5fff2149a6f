"""Health of nodes: the state of each, its history, how often it was at fault, and what many share.

Pure but for `fleet`, which reads the store.
"""
