"""Reads a detector's thresholds from the TOML file beside it, where each has its reason."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from importlib import resources
from typing import TypeVar

T = TypeVar("T")


def load(package: str, kind: Callable[..., T]) -> T:
    """The thresholds of the detector in `package`: a `kind` whose fields are the file's keys."""
    text = resources.files(package).joinpath("thresholds.toml").read_text(encoding="utf-8")
    return kind(**tomllib.loads(text))
