"""Real replicas that differ by a flipped bit, by the code, by a skipped batch, or by plan."""

from __future__ import annotations

from typing import Any

import pytest

from stepwatch.cli.jobs.status_text import averaging_words
from stepwatch.collector.web.job_view import job_summary
from tests.collector.made import JOB

from .conftest import Run, verdicts

pytest.importorskip("torch", reason="replicas are torch's")


def in_matrix(*values: Any) -> Any:
    """A case that `make test-matrix` runs; `make test` has one like it."""
    return pytest.param(*values, marks=pytest.mark.matrix)


WAYS: list[dict[str, str]] = [{"OPTIMIZER": "1"}, {}, {"AUTO": "1"}]
"""The optimizer is attached, only the model is, nothing is: `stepwatch run` watches."""


@pytest.mark.parametrize("watched", [WAYS[0], in_matrix(WAYS[1]), WAYS[2]])
def test_torchs_local_sgd_is_no_incident_and_its_period_is_known(
    replicas: Run, watched: dict[str, str]
) -> None:
    service, incidents = replicas(
        WAY="ddp-local-sgd", STEPS="200", PERIOD="11", WARMUP="10", **watched
    )
    assert incidents == []
    live = service.job(JOB)
    assert live is not None
    view: Any = job_summary(*live, now=service.now())
    (averaging,) = view["averaging"]
    assert (averaging["period_steps"], averaging["ranks"]) == (11, "0,1")
    words = "ranks 0,1 train apart and average their parameters every 11 steps"
    assert averaging_words(averaging).startswith(words)


@pytest.mark.parametrize(
    "environ",
    [
        {"WAY": "ddp-no-sync", "PERIOD": "11", "WARMUP": "10"},
        in_matrix({"WAY": "ddp-no-sync", "PERIOD": "8", "WARMUP": "0"}),
        {"WAY": "ddp", "EMA": "0.9"},
    ],
)
def test_averaging_under_no_sync_and_an_averaged_copy_are_no_incident(
    replicas: Run, environ: dict[str, str]
) -> None:
    _, incidents = replicas(STEPS="100", OPTIMIZER="1", **environ)
    assert incidents == []


@pytest.mark.parametrize(("world", "watched"), [*zip((2, 4, 2), WAYS, strict=True)])
def test_replicas_trained_through_the_module_never_exchange_gradients(
    replicas: Run, world: int, watched: dict[str, str]
) -> None:
    _, incidents = replicas(world, WAY="ddp-module", STEPS="30", **watched)
    assert verdicts(incidents) == [("replica-drift", "no-gradient-exchange", -1, 7)]
    (incident,) = incidents
    assert "never exchange gradients" in incident["summary"]
    assert "`model.module`" in incident["summary"] and "since step 7" in incident["summary"]
    assert incident["detected_after_seconds"] < 60 and incident["severity"] == "alert"


def test_replicas_that_start_unequal_are_reported_as_that(replicas: Run) -> None:
    _, incidents = replicas(4, WAY="ddp", STEPS="30", OPTIMIZER="1", UNEQUAL="1")
    assert verdicts(incidents) == [("replica-drift", "different-start", -1, 7)]


@pytest.mark.parametrize(
    ("world", "step", "watched"),
    [(2, 3, {"OPTIMIZER": "1"}), in_matrix(2, 15, {}), (4, 12, {"OPTIMIZER": "1"})],
)
def test_a_rank_that_skips_a_batch_is_a_skipped_step(
    replicas: Run, world: int, step: int, watched: dict[str, str]
) -> None:
    _, incidents = replicas(world, WAY="ddp", STEPS="40", SKIP=f"1,{step}", **watched)
    assert verdicts(incidents) == [("replica-drift", "skipped-steps", 1, step)]
    (incident,) = incidents
    assert incident["summary"].startswith(f"rank 1 skipped 1 step since step {step}:")
    assert incident["severity"] == "info"


@pytest.mark.parametrize(
    ("world", "environ"),
    [
        (4, {"WAY": "ddp", "OPTIMIZER": "1"}),
        in_matrix(2, {"WAY": "ddp"}),
        (2, {"WAY": "ddp", "AUTO": "1"}),
        in_matrix(2, {"WAY": "ddp-accumulate", "PERIOD": "3", "OPTIMIZER": "1"}),
        (2, {"WAY": "ddp-accumulate", "PERIOD": "3"}),
    ],
)
def test_a_flipped_bit_stays_silent_corruption(
    replicas: Run, world: int, environ: dict[str, str]
) -> None:
    _, incidents = replicas(world, STEPS="40", FLIP="1,9", **environ)
    named = -1 if world == 2 else 1
    assert verdicts(incidents) == [("silent-corruption", "replica-mismatch", named, 15)]
    assert "since step 15" in incidents[0]["summary"]
