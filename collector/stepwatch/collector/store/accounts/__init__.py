"""Daily accounts of device time."""

from .days import AccountDay, put_account_days, read_account_days
from .generations import Generation, newest_generations, note_generations, read_generations

__all__ = [
    "AccountDay",
    "Generation",
    "newest_generations",
    "note_generations",
    "put_account_days",
    "read_account_days",
    "read_generations",
]
