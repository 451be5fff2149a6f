"""Finds settings and texts that hold secrets, and withholds the secrets."""

from .names import is_secret_name
from .texts import WITHHELD, holds_secret, known_secrets, without_secrets

__all__ = ["WITHHELD", "holds_secret", "is_secret_name", "known_secrets", "without_secrets"]
