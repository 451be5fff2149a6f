"""Reads a detector's thresholds from the TOML file beside it, where each has its reason."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from importlib import resources
from typing import TypeVar

T = TypeVar("T")


def load(name: str, kind: Callable[..., T]) -> T:
    """The thresholds of detector `name` as a `kind`, whose fields are the keys of `<name>.toml`."""
    text = resources.files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return kind(**tomllib.loads(text))
