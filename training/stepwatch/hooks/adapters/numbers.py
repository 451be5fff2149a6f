"""The numbers among what a framework logs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

_MEASURED = ("runtime", "_per_second")
"""Ends of names for what the hooks measure themselves."""


def numbers_in(logged: Mapping[str, Any], left_out: Collection[str] = ()) -> dict[str, Any]:
    """Return the numbers and one-element tensors by name, without those in `left_out` and times."""
    return {
        str(name): value
        for name, value in logged.items()
        if not (name in left_out or str(name).endswith(_MEASURED))
        and (isinstance(value, int | float) or _is_scalar(value))
    }


def _is_scalar(value: Any) -> bool:
    count = getattr(value, "numel", None)
    return callable(count) and count() == 1
