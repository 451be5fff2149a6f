"""What a client of a collector presents, trusts and reads at most; tokens and CAs are files."""

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
