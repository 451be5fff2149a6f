"""The argument parser of every command: wrong usage is one line that says what to do."""

from __future__ import annotations

import argparse
import re
from typing import NoReturn

from .errors import UsageError
from .phrases import closest_hint


class Parser(argparse.ArgumentParser):
    """Raises `UsageError` instead of printing the usage and leaving the process."""

    def error(self, message: str) -> NoReturn:
        """Raise with the message, the closest option, and the command that lists all.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"{message}{self._hint(message)}; see `{self.prog} --help`")

    def _hint(self, message: str) -> str:
        """The option closest to the first unknown one."""
        unknown = re.search(r"unrecognized arguments: (--[^ =]+)", message)
        flags = [flag for action in self._actions for flag in action.option_strings]
        hint = closest_hint(unknown[1], flags, list_known=False) if unknown else ""
        return f"; {hint}" if hint else ""
