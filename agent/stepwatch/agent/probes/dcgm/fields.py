"""Which metrics of a dcgm-exporter are read, and as what (`fields.toml`)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import NamedTuple


class Field(NamedTuple):
    """A field of a device's reading, the base units in one unit of the metric, and whether it is
    that of an instance on a device that is divided."""

    name: str
    unit: float
    of_instance: bool


def _load() -> Mapping[str, Field]:
    text = resources.files(__package__).joinpath("fields.toml").read_text(encoding="utf-8")
    return {
        item["name"]: Field(item["field"], float(item["unit"]), item.get("of_instance", False))
        for item in tomllib.loads(text)["field"]
    }


FIELDS = _load()
XID = "DCGM_FI_DEV_XID_ERRORS"
REMAP_FAILED = "DCGM_FI_DEV_ROW_REMAP_FAILURE"
REMAP_PENDING = "DCGM_FI_DEV_ROW_REMAP_PENDING"
NAMES = frozenset({*FIELDS, XID, REMAP_FAILED, REMAP_PENDING})
"""Metrics that are read; the others are passed over."""
