"""The hooks change nothing: losses with and without them are the same to the last bit."""

from __future__ import annotations

import json

from stepwatch.signals import places

from .conftest import Site

STEPS = 10


def test_losses_are_bitwise_identical_with_and_without_hooks(site: Site) -> None:
    losses = {}
    for name, environ in {"on": {}, "off": {places.ENV_DISABLE: "1"}}.items():
        report = site.folder / f"{name}.json"
        words = ("--run-dir", str(site.folder / name), "--json", str(report))
        trainer = site.start_trainer(STEPS, *words, **environ)
        assert trainer.wait(timeout=120) == 0
        losses[name] = [float(loss).hex() for loss in json.loads(report.read_text())["losses"]]
        assert (len(list(site.rings.rglob("?"))) > 0) == (name == "on")
        for ring in site.rings.rglob("*"):
            if ring.is_file():
                ring.unlink()
    assert len(losses["on"]) == STEPS
    assert losses["on"] == losses["off"]
