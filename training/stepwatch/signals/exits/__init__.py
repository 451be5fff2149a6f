"""Why a process ended, as the last lines of its stderr or its exception tell it.

`catalogue.toml` lists the patterns, what each means, what to do, and who says so.
"""

from __future__ import annotations

from .catalogue import CATALOGUE, Explained, Pattern, Weight, explain, telling

__all__ = ["CATALOGUE", "Explained", "Pattern", "Weight", "explain", "telling"]
