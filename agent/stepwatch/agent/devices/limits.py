"""Limits above which a device reading is a fault (`limits.toml`)."""

from __future__ import annotations

import tomllib
from pathlib import Path


def _load() -> dict[str, float]:
    text = Path(__file__).with_name("limits.toml").read_text(encoding="utf-8")
    return {item["name"]: float(item["most"]) for item in tomllib.loads(text)["limit"]}


MOST = _load()
"""Maximum for a healthy device, by name."""
