"""A trainer's whole numbers, which may be tensors."""

from __future__ import annotations

import operator
from typing import Any


def is_on_device(value: Any) -> bool:
    """Return whether reading `value` would wait for a device."""
    device = getattr(value, "device", None)
    return device is not None and getattr(device, "type", "cpu") != "cpu"


def whole_number(value: Any, name: str) -> int:
    """Return `value` as an int; `name` names it in the error.

    Raises:
        TypeError: it is not a whole number.
        ValueError: it is on a device, so that reading it would wait.
    """
    if is_on_device(value):
        raise ValueError(f"{name} lies on a device and would be waited for: give an int")
    return operator.index(value)
