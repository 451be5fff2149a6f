"""Reads the thresholds of a detector or probe from the TOML file beside it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from importlib import resources
from typing import TypeVar

T = TypeVar("T")


def load(package: str, kind: Callable[..., T]) -> T:
    """The thresholds of `package`: a `kind` whose fields are the keys of its `thresholds.toml`."""
    text = resources.files(package).joinpath("thresholds.toml").read_text(encoding="utf-8")
    return kind(**tomllib.loads(text))
