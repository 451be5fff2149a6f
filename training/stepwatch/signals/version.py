"""The version of the installed stepwatch."""

from __future__ import annotations

import functools
import importlib.metadata


@functools.cache
def version() -> str:
    """As the package's metadata has it; empty, which is unknown, where it is not installed."""
    try:
        return importlib.metadata.version("stepwatch")
    except importlib.metadata.PackageNotFoundError:
        return ""
