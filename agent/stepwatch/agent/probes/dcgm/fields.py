"""The dcgm-exporter metrics to read, and their record fields (`fields.toml`)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Field(NamedTuple):
    """A device record's field.

    `unit` is the metric's unit in base units. `of_instance` marks a value that belongs to an
    instance on a partitioned device.
    """

    name: str
    unit: float
    of_instance: bool


def _load() -> Mapping[str, Field]:
    text = Path(__file__).with_name("fields.toml").read_text(encoding="utf-8")
    return {
        item["name"]: Field(item["field"], float(item["unit"]), item.get("of_instance", False))
        for item in tomllib.loads(text)["field"]
    }


FIELDS = _load()
XID = "DCGM_FI_DEV_XID_ERRORS"
REMAP_FAILED = "DCGM_FI_DEV_ROW_REMAP_FAILURE"
REMAP_PENDING = "DCGM_FI_DEV_ROW_REMAP_PENDING"
NAMES = frozenset({*FIELDS, XID, REMAP_FAILED, REMAP_PENDING})
"""Metrics to read; others are skipped."""
