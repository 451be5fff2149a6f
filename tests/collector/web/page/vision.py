"""How far two colours are apart, for most eyes and for dichromats, and how they contrast."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stepwatch.signals.arrays import Floats

_LIGHT = np.array([
    [0.4124564, 0.3575761, 0.1804375],
    [0.2126729, 0.7151522, 0.0721750],
    [0.0193339, 0.1191920, 0.9503041],
])  # fmt: skip
"""CIE XYZ of linear sRGB, with the white of D65."""
_WHITE = _LIGHT.sum(axis=1)

EYES: dict[str, NDArray[np.float64]] = {
    "most": np.eye(3),
    "protanopia": np.array([
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ]),
    "deuteranopia": np.array([
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ]),
    "tritanopia": np.array([
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ]),
}  # fmt: skip
"""Linear sRGB as dichromats see it: Machado, Oliveira and Fernandes, "A physiologically-based model
for simulation of color vision deficiency" (2009), severity 1."""


def linear(colour: str) -> Floats:
    """Return the linear red, green and blue of "#rrggbb", 0 to 1."""
    shares = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.asarray(
        np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    )


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of WCAG 2.1, 1 to 21."""
    dark, light = sorted(float(_LIGHT[1] @ linear(colour)) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


def lab(light: Floats) -> Floats:
    """Return CIE L*a*b* of linear sRGB."""
    parts = _LIGHT @ np.clip(light, 0.0, 1.0) / _WHITE
    x, y, z = np.where(parts > 216 / 24389, np.cbrt(parts), (24389 / 27 * parts + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def least_distance(one: str, other: str) -> float:
    """Return the least distance of two colours over all `EYES`."""
    lights = linear(one), linear(other)
    return min(distance(*(lab(eye @ light) for light in lights)) for eye in EYES.values())


def distance(one: Floats, other: Floats) -> float:
    """Return CIEDE2000 of two colours in L*a*b*, in the steps of Sharma and others (2005)."""
    strength = (np.hypot(*one[1:]) + np.hypot(*other[1:])) / 2
    gain = 1 + 0.5 * (1 - _seventh(strength))
    (c1, h1), (c2, h2) = _polar(one, gain), _polar(other, gain)
    turn = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0.0
    lightness, chroma = other[0] - one[0], c2 - c1
    hue = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn) / 2)
    mean_l, mean_c = (one[0] + other[0]) / 2, (c1 + c2) / 2
    mean_h = (h1 + turn / 2) % 360 if c1 * c2 else h1 + h2
    waves = ((-0.17, 1, -30), (0.24, 2, 0), (0.32, 3, 6), (-0.20, 4, -63))
    shape = 1 + sum(size * np.cos(np.radians(times * mean_h + at)) for size, times, at in waves)
    part_l = lightness / (1 + 0.015 * (mean_l - 50) ** 2 / np.sqrt(20 + (mean_l - 50) ** 2))
    part_c = chroma / (1 + 0.045 * mean_c)
    part_h = hue / (1 + 0.015 * mean_c * shape)
    blue = np.radians(60 * np.exp(-(((mean_h - 275) / 25) ** 2)))
    mixed = -2 * _seventh(mean_c) * np.sin(blue) * part_c * part_h
    return float(np.sqrt(part_l**2 + part_c**2 + part_h**2 + mixed))


def _seventh(chroma: float) -> float:
    return float(np.sqrt(chroma**7 / (chroma**7 + 25.0**7)))


def _polar(colour: Floats, gain: float) -> tuple[float, float]:
    a, b = colour[1] * gain, colour[2]
    return float(np.hypot(a, b)), float(np.degrees(np.arctan2(b, a)) % 360)
