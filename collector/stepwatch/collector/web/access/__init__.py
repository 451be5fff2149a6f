"""Who may send, read and change: tokens by role, the gate that asks for them, and TLS."""

from .gate import Gate
from .roles import Role
from .tokens import TokenFiles, Tokens

__all__ = ["Gate", "Role", "TokenFiles", "Tokens"]
