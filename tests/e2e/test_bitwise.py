"""The hooks change nothing: losses with and without them are the same to the last bit."""

from __future__ import annotations

import json

import pytest

from stepwatch.signals import places
from stepwatch.signals.blackbox import find_rings

from .conftest import Site

STEPS = 10


def losses(site: Site, name: str, **environ: str) -> list[str]:
    """Losses of a run, every bit of them, and its rings under `<folder>/<name>-rings`."""
    report = site.folder / f"{name}.json"
    words = ("--run-dir", str(site.folder / name), "--json", str(report))
    environ[places.ENV_RING_DIR] = str(site.folder / f"{name}-rings")
    assert site.start_trainer(STEPS, *words, **environ).wait(timeout=120) == 0
    return [float(loss).hex() for loss in json.loads(report.read_text())["losses"]]


@pytest.mark.matrix  # forked ranks show the same in every run: tests/distributed/test_strategies.py
def test_losses_are_bitwise_identical_with_and_without_hooks(site: Site) -> None:
    watched = losses(site, "on")
    unwatched = losses(site, "off", **{places.ENV_DISABLE: "1"})
    assert len(list(find_rings(site.folder / "on-rings"))) == 4
    assert len(list(find_rings(site.folder / "off-rings"))) == 0
    assert len(watched) == STEPS
    assert watched == unwatched
