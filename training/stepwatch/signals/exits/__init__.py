"""The reason why a process ended, from its last stderr lines or its exception.

`catalogue.toml` lists the patterns, their meanings, the actions, and the sources.
"""

from __future__ import annotations

from .catalogue import CATALOGUE, Explained, Pattern, Weight, explain, telling

__all__ = ["CATALOGUE", "Explained", "Pattern", "Weight", "explain", "telling"]
