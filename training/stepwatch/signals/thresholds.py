"""Reads the thresholds for a detector or probe from the TOML file beside it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from importlib import resources
from typing import TypeVar

T = TypeVar("T")


def load(package: str, kind: Callable[..., T]) -> T:
    """Return `package`'s thresholds: a `kind` with the keys in its `thresholds.toml`."""
    text = resources.files(package).joinpath("thresholds.toml").read_text(encoding="utf-8")
    return kind(**tomllib.loads(text))
