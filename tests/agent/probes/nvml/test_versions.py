"""The doctor asks the driver for its version in a child, which may hang."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwatch.agent.doctor import Outcome, libraries
from stepwatch.agent.doctor.children import answers
from stepwatch.agent.doctor.result import Surroundings
from tests.agent.probes.nvml.scripted import Driver
from tests.agent.probes.topology.made import Machine


def test_the_driver_of_this_node_is_asked_in_a_child(
    driver: Driver,
    library: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library.parent))
    (answer,) = answers("libraries", (), 60.0)
    assert (answer["driver"], answer["driver_cuda"]) == ("535.104.05", "12.2")
    assert answer["driver_devices"] == len(driver.devices)
    around = Surroundings({}, sys=Machine(tmp_path / "sys").sys)
    by_name = {result.check: result for result in libraries.check(around)}
    assert by_name["driver"].text == "NVIDIA 535.104.05, CUDA up to 12.2"
    assert by_name["versions"].outcome is Outcome.PASS


def test_a_driver_that_hangs_is_unknown(
    driver: Driver,
    library: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library.parent))
    monkeypatch.setattr(libraries, "CHILD_SECONDS", 0.2)
    (_, result) = libraries.check(Surroundings({}))
    assert result.outcome is Outcome.UNKNOWN and "no answer within" in result.text
