"""Human-readable quantities: one unit each, rounded; unknown is a word, never a zero."""

from __future__ import annotations

import math
from typing import Any

UNKNOWN = "unknown"
_SIZES = ("B", "kB", "MB", "GB", "TB")
_COUNTED = ("events", "ranks", "steps")
_MOST_TIMES = 100.0
"""Above this limit a ratio only shows that its reference is close to zero."""


def seconds(value: float | None) -> str:
    """Format a duration: `4.1 ms`, `825 ms`, `1.06 s`, `12.4 min`, `3.2 h`."""
    if value is None or math.isnan(value):
        return UNKNOWN
    if value < 0.9995:
        return f"{value * 1000:.3g} ms" if value else "0 s"
    if value < 7200:
        return f"{value:.2f} s" if value < 120 else f"{value / 60:.1f} min"
    return f"{value / 3600:.1f} h"


def device_time(value: float | None) -> str:
    """Format device-seconds: `28.8 device-s`, `9.0 device-min`, `1.50 device-h`."""
    if value is None or math.isnan(value):
        return UNKNOWN
    if value < 59.95:
        return f"{value:.1f} device-s"
    if value < 3597.0:
        return f"{value / 60:.1f} device-min"
    return f"{value / 3600:,.2f} device-h"


def size(value: float | None) -> str:
    """Format bytes: `512 B`, `2.1 MB`."""
    if value is None or math.isnan(value):
        return UNKNOWN
    power = 0
    while value >= 1000 and power < len(_SIZES) - 1:
        value, power = value / 1000, power + 1
    return f"{value:.1f} {_SIZES[power]}" if power else f"{value:.0f} B"


def percent(value: float | None) -> str:
    """Format a ratio in whole percent."""
    return UNKNOWN if value is None or math.isnan(value) else f"{value:.0%}"


def times(ratio: float) -> str:
    """Format a factor: `2.1x`, `over 100x`."""
    return f"{ratio:.1f}x" if ratio < _MOST_TIMES else f"over {_MOST_TIMES:.0f}x"


def gain(ratio: float | None) -> str:
    """Format a speed-up: `12% faster`, above twice as fast `2.1x as fast`."""
    if ratio is None or math.isnan(ratio):
        return UNKNOWN
    if ratio < 1.0:
        return f"{percent(ratio)} faster"
    return f"{times(1.0 + ratio)} as fast"


def quantity(value: float | None, unit: str) -> str:
    """Format an evidence value with its unit, as `detect.finding.Evidence` names units."""
    if value is None or math.isnan(value):
        return UNKNOWN
    name, _, suffix = unit.replace("_", " ").partition(" ")
    formatter = {"seconds": seconds, "bytes": size, "ratio": percent}.get(name)
    if formatter is not None:
        return f"{formatter(value)} {suffix}".rstrip()
    if unit == "step":
        return f"step {value:.0f}"
    if unit == "digest":
        return f"{int(value):x}"
    plain = f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.3g}"
    plural = unit.removesuffix("s") if plain == "1" and unit in _COUNTED else unit
    return f"{plain} {plural}".rstrip()


def json_value(value: Any) -> Any:
    """Return `value` for JSON: non-finite numbers become null at any depth."""
    if isinstance(value, dict):
        return {key: json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
