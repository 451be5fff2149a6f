"""When torch gives up a collective that hangs, and what nobody gives up."""

from __future__ import annotations

import pytest

from stepwatch.agent.doctor import Outcome, watchdogs
from stepwatch.agent.doctor.result import Surroundings


def results_with(**environ: str) -> list[tuple[Outcome, str]]:
    return [(result.outcome, result.text) for result in watchdogs.check(Surroundings(environ))]


def test_the_effective_times() -> None:
    assert results_with() == [
        (
            Outcome.PASS,
            "a collective that hangs is given up after 600 s unless the job sets another timeout, "
            "a watchdog that hangs after 480 s",
        )
    ]
    ((_, text),) = results_with(TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC="60")
    assert text.endswith("hangs after 60 s")


@pytest.mark.parametrize(
    "name", ["TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ENABLE_MONITORING"]
)
def test_a_watchdog_that_is_off(name: str) -> None:
    ((outcome, text),) = results_with(**{name: "0"})
    assert outcome is Outcome.WARN and text.startswith(f"{name}=0: ")


def test_what_is_no_number() -> None:
    ((outcome, text),) = results_with(TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC="ten")
    assert outcome is Outcome.FAIL and "is not a number" in text
