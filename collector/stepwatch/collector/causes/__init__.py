"""From findings to causes: what explains what, and what the nodes' facts say of it."""

from .join import Group, identity, join

__all__ = ["Group", "identity", "join"]
