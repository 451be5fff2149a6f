"""A request for a profile, as it comes through a rank's worker server."""

from __future__ import annotations

import re
from typing import NamedTuple

from stepwatch.signals.profiles import MOST_SECONDS, MOST_STEPS

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_MAX_STEP = 0xFFFFFFFF


class ProfileRequest(NamedTuple):
    """Profile `steps` steps, from step `first` or the next one if that has begun.

    `name` tells requests apart: letters, digits, `_` and `-`. The first step must begin within
    `seconds`.
    """

    name: str
    first: int
    steps: int
    seconds: int = MOST_SECONDS

    @classmethod
    def parse(cls, name: str, first: str, steps: str, seconds: str = "") -> ProfileRequest:
        """Return the request that the parameters hold; an agent may leave out `seconds`.

        Raises:
            ValueError: a parameter is out of its bounds; the message says which.
        """
        if not _NAME.fullmatch(name):
            raise ValueError("the name has other characters than letters, digits, _ and -")
        within_s = _whole(seconds, "seconds") if seconds else MOST_SECONDS
        request = cls(name, _whole(first, "first"), _whole(steps, "steps"), within_s)
        if not 1 <= request.steps <= MOST_STEPS:
            raise ValueError(f"steps are 1 to {MOST_STEPS}")
        if request.first > _MAX_STEP:
            raise ValueError(f"first is at most {_MAX_STEP}")
        if not 1 <= request.seconds <= MOST_SECONDS:
            raise ValueError(f"seconds are 1 to {MOST_SECONDS}")
        return request


def _whole(text: str, name: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 10:
        raise ValueError(f"{name} is no number")
    return int(text)
