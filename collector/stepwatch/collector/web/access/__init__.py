"""Access control: tokens by role, the gate that requires them, and TLS."""

from .browsers import ANY_NAME, Browsers, PublicNames
from .gate import Gate
from .roles import Role
from .tokens import TokenFiles, Tokens

__all__ = ["ANY_NAME", "Browsers", "Gate", "PublicNames", "Role", "TokenFiles", "Tokens"]
