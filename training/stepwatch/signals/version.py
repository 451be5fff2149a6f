"""The version of the installed stepwatch."""

from __future__ import annotations

import functools
import importlib.metadata


@functools.cache
def version() -> str:
    """Return the version in the package's metadata; empty, which is unknown, if not installed."""
    try:
        return importlib.metadata.version("stepwatch")
    except importlib.metadata.PackageNotFoundError:
        return ""
