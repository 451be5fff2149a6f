"""Finds steps, phases and collectives in a trainer that does not call stepwatch.

`stepwatch run` puts `SITE_DIR` first on PYTHONPATH: every Python below it runs the `sitecustomize`
in there, which waits for torch and then calls `begin_unasked`. The adapters in
`stepwatch.hooks.adapters` call `follow` for their own Watch. Importing this imports no torch.
"""

from __future__ import annotations

from pathlib import Path

from .following import begin_unasked, follow
from .observer import LoopObserver

__all__ = ["SITE_DIR", "TOP", "LoopObserver", "begin_unasked", "follow"]

SITE_DIR = Path(__file__).parent / "site"
"""Directory of the `sitecustomize` module."""
TOP = "STEPWATCH_RUN_TOP"
"""Variable that names the process that `stepwatch run` became and its start; `site` reads it."""
