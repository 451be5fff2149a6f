"""The argument parser for every command: wrong usage is one line that names the fix."""

from __future__ import annotations

import argparse
import math
import re
from typing import NoReturn

from .errors import UsageError
from .phrases import closest_hint


def positive_seconds(text: str) -> float:
    """Return a number of seconds above 0.

    Raises:
        ArgumentTypeError: it is no such number.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number of seconds above 0")
    return value


class Parser(argparse.ArgumentParser):
    """Raises `UsageError` instead of printing the usage and leaving the process."""

    def error(self, message: str) -> NoReturn:
        """Raise with the message, the closest option, and the command that lists all.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"{message}{self._hint(message)}; see `{self.prog} --help`")

    def _hint(self, message: str) -> str:
        """Return the option closest to the first unknown one."""
        unknown = re.search(r"unrecognized arguments: --([^ =]+)", message)
        flags = [flag for action in self._actions for flag in action.option_strings]
        # Without their dashes, which all options share and which would make any two close.
        names = [flag[2:] for flag in flags if flag.startswith("--")]
        hint = closest_hint(unknown[1], names, list_known=False) if unknown else ""
        dashed = hint.replace("'", "'--", 1)
        return f"; {dashed}" if hint else ""
