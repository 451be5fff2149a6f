"""From findings to causes: what explains what, and what the nodes' facts say of it."""

from .explain import explain
from .join import Group, identity, join

__all__ = ["Group", "explain", "identity", "join"]
