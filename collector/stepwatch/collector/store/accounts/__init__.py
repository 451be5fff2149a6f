"""What became of device-time, kept by day."""

from .days import AccountDay, put_account_days, read_account_days

__all__ = ["AccountDay", "put_account_days", "read_account_days"]
