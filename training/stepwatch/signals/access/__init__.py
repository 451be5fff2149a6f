"""A collector client's token, its trusted certificates and its read bounds; all are files."""

from .client import Access
from .files import read_small, stamp_of, warn_of_readers
from .tokens import TokenFile, checked_token, read_token

__all__ = [
    "Access",
    "TokenFile",
    "checked_token",
    "read_small",
    "read_token",
    "stamp_of",
    "warn_of_readers",
]
