"""Real runs on the simulated device: the devices' clock names faults that the host's does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.verdicts.cases import Case, Draw
from tests.verdicts.device.cases import FAULTY
from tests.verdicts.device.compare import Compared, compare_clocks
from tests.verdicts.run import stands_alone, verdict
from tests.verdicts.scoring import Score, score
from tests.verdicts.site import Site

pytest.importorskip("torch", reason="the ranks need torch")

RIGHT = Score(1, 0, True, True, True, True, 0.0)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Start a collector and an agent for the runs of this module."""
    folder = tmp_path_factory.mktemp("device")
    services = Site(folder, folder / "rings")
    services.start()
    yield services
    services.close()


def run_and_replay(site: Site, scratch: Path, name: str, seed: int) -> Compared:
    """Return a run that follows its plan, with its replays."""
    comparison = compare_clocks(Case(name, seed, *FAULTY[name](Draw(name, seed))), site, scratch)
    assert comparison.ran.problem == ""
    assert comparison.device.window.clock == "device"
    assert comparison.host.window.clock == "host"
    return comparison


def right_on_host(comparison: Compared) -> bool:
    """Return whether the host's clock alone names the rank, the phase and the cause.

    An incident there is no mistake of the replay: a delay in another phase, or on another rank's
    host, causes one. It must not be the truth.
    """
    verdicts = [verdict(item) for item in comparison.host.incidents if stands_alone(item)]
    scored = score(comparison.ran.outcome._replace(verdicts=tuple(verdicts)))
    return bool(scored.found and scored.rank and scored.phase and scored.cause)


def test_a_slow_device_is_named_by_its_own_clock_alone(site: Site, tmp_path: Path) -> None:
    comparison = run_and_replay(site, tmp_path, "device-slow-clock", 0)
    assert score(comparison.ran.outcome)._replace(seconds=0.0) == RIGHT, (
        comparison.ran.outcome.verdicts
    )
    assert not right_on_host(comparison)


@pytest.mark.long(
    "tests/verdicts/device/test_runs.py::test_a_slow_device_is_named_by_its_own_clock_alone",
    "tests/hooks/device/test_simulated.py::test_a_late_host_is_idle_time_of_the_device_in_that_phase",
)
def test_a_late_host_is_told_from_a_slow_device(site: Site, tmp_path: Path) -> None:
    comparison = run_and_replay(site, tmp_path, "device-launch-bound", 0)
    assert score(comparison.ran.outcome)._replace(seconds=0.0) == RIGHT, (
        comparison.ran.outcome.verdicts
    )
    assert not right_on_host(comparison)
