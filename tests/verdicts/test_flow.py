"""Real runs with a fault in data, shards or checkpoints get the right rank, phase and cause."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.verdicts.cases import FAULTY, HEALTHY, Case, Draw
from tests.verdicts.run import run
from tests.verdicts.scoring import score
from tests.verdicts.site import Site

pytest.importorskip("torch", reason="the ranks need torch")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Start a collector and an agent for the runs of this module."""
    folder = tmp_path_factory.mktemp("flow")
    services = Site(folder, folder / "rings")
    services.start()
    yield services
    services.close()


@pytest.mark.matrix  # `make verdicts` runs them too
@pytest.mark.parametrize("name", ["slow-data-everywhere", "skewed-shard", "checkpoint-stall"])
def test_the_fault_is_named_and_nothing_else_is(site: Site, name: str) -> None:
    draw = Draw(name, 0)
    ran = run(Case(name, draw.seed, *FAULTY[name](draw)), site)
    assert ran.problem == ""
    result = score(ran.outcome)
    assert (result.true, result.false) == (1, 0), ran.outcome.verdicts
    assert (result.rank, result.cause) == (True, True), ran.outcome.verdicts
    assert result.phase in (True, None), ran.outcome.verdicts


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["epochs", "checkpoints"])
def test_epochs_and_saves_are_silent(site: Site, name: str) -> None:
    draw = Draw(name, 0)
    ran = run(Case(name, draw.seed, *HEALTHY[name](draw)), site)
    assert (ran.problem, ran.outcome.verdicts) == ("", ())
