"""The page's colours: told apart by every reader, readable on their grounds, one for a meaning."""

from __future__ import annotations

import json
import re
from importlib import resources
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from .vision import contrast, distance, least_distance

THEME = Path(__file__).parents[4] / "collector/page/src/theme/theme.css"
LEAST_DISTANCE = 15.0
LEAST_CONTRAST = 4.5
"""Of text below 18 points, by level AA of WCAG 2.1."""
TEXTS = ("ink", "quiet", "link", "bad", "warn", "good", "unsure", "data")
GROUNDS = ("ground", "panel", "sunken", "bad-ground", "warn-ground", "faint")
SAME = {
    "data-wait": "data",
    "checkpoint-stall": "checkpoint",
    "evaluation": "eval",
    "exposed-communication": "transfer",
    "unknown": "unknown",
}
"""Phases of a step that are the same as causes of lost device-time."""


def colours() -> dict[str, dict[str, str]]:
    """Return colours by cause and by phase, in the order in which they are stacked."""
    text = (resources.files("stepwatch.collector") / "colours.json").read_text()
    read: dict[str, dict[str, str]] = json.loads(text)
    return read


def tokens() -> dict[str, tuple[str, str]]:
    """Return the light and the dark colour of each token of the theme."""
    pairs = re.finditer(
        r"--([a-z0-9-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", THEME.read_text()
    )
    return {pair[1]: (pair[2], pair[3]) for pair in pairs}


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
        ((50.0, 2.49, -0.001), (50.0, -2.49, 0.0011), 7.2195),
        ((2.0776, 0.0795, -1.135), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_the_distance_is_that_of_published_pairs(
    one: tuple[float, ...], other: tuple[float, ...], apart: float
) -> None:
    assert distance(np.array(one), np.array(other)) == pytest.approx(apart, abs=1e-4)


@pytest.mark.parametrize("kind", ["causes", "phases"])
def test_neighbours_in_a_stack_are_told_apart(kind: str) -> None:
    own = colours()[kind]
    near = {
        f"{one}, {other}": apart
        for one, other in pairwise(own)
        if (apart := least_distance(own[one], own[other])) < LEAST_DISTANCE
    }
    assert near == {}


def test_productive_time_is_told_apart_from_every_loss() -> None:
    own = dict(colours()["causes"])
    productive = own.pop("productive")
    near = {
        cause: apart
        for cause, colour in own.items()
        if (apart := least_distance(productive, colour)) < LEAST_DISTANCE
    }
    assert near == {}


def test_one_meaning_has_one_colour_in_both_stacks() -> None:
    causes, phases = colours()["causes"], colours()["phases"]
    shared = {colour for colour in causes.values() if colour in phases.values()}
    assert {cause: phases[phase] for cause, phase in SAME.items()} == {
        cause: causes[cause] for cause in SAME
    }
    assert len(shared) == len(SAME), "other meanings do not share a colour"
    for own in (causes, phases):
        assert len(set(own.values())) == len(own)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_is_readable_on_each_ground(theme: int) -> None:
    own = {name: pair[theme] for name, pair in tokens().items()}
    faint = {
        f"{text} on {ground}": ratio
        for text in TEXTS
        for ground in GROUNDS
        if (ratio := contrast(own[text], own[ground])) < LEAST_CONTRAST
    }
    assert faint == {}


def test_states_have_shapes_beside_colours() -> None:
    shapes = dict(re.findall(r"\.s-([a-z]+)::before \{ content: \"(.)\"; \}", THEME.read_text()))
    assert set(shapes) == {"bad", "warn", "unsure", "ended"}
    assert len({*shapes.values(), "●"}) == 5, "each state, and the good one, has its own shape"
