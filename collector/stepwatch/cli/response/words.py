"""Options and words shared by the incident response verbs."""

from __future__ import annotations

import argparse
import getpass
import os
import re

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def add_by_argument(parser: argparse.ArgumentParser) -> None:
    """Declare `--by`."""
    parser.add_argument(
        "--by", default=me(), metavar="NAME", help=f"your name, for the record [{me()}]"
    )


def me() -> str:
    """Return the user that runs this process; under `sudo` the user that called it."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in a container
        return "unknown"


def lasting(text: str) -> float:
    """Parse a time such as 90s, 30m, 2h or 7d; return seconds.

    Raises:
        ArgumentTypeError: it is not such a time.
    """
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)([smhd])", text)
    if match is None or not float(match[1]):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} must be a time such as 90s, 30m, 2h or 7d")
    return float(match[1]) * _UNITS[match[2]]


def in_short(seconds: float) -> str:
    """Format a time in the largest unit with a value of at least one, as 2h or 1.5d."""
    unit = next((name for name in "dhm" if seconds >= _UNITS[name]), "s")
    return f"{seconds / _UNITS[unit]:.3g}{unit}"
