"""Recorded pauses of healthy runs open nothing; a recorded rank that sleeps is a ticket at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.state.trackers.steps.step_history import StepHistory
from stepwatch.collector.store import Store
from stepwatch.signals.clock import NANOSECONDS
from tests.verdicts.device.replay import ReplayClock, evaluate_until

from .recording import load

AFTER_NS = 3 * NANOSECONDS
HEALTHY = (
    "nanogpt-estimate-loss",
    "evaluation-on-rank-0",
    "safetensors-save",
    "hf-evaluation-batch",
    "lightning-validation-batch",
    "fsdp2-dcp-save",
    "readme-snippet",
    "single-process-pause",
)


def replay(name: str, folder: Path) -> tuple[list[dict[str, Any]], StepHistory]:
    """Incidents of a recording that is evaluated once a second, and its steps."""
    store, clock = Store.sqlite(folder / "store.db"), ReplayClock()
    try:
        service, position = Service(store, clock), 0
        for position, payload in load(name):
            evaluate_until(service, clock, position)
            service.receive(payload)
        evaluate_until(service, clock, position + AFTER_NS)
        entry = service.job(name)
        assert entry is not None
        return store.incidents.newest(name), entry[0].current.steps.history
    finally:
        store.close()


@pytest.mark.parametrize("name", HEALTHY)
def test_a_pause_that_no_hook_recognises_opens_nothing(name: str, tmp_path: Path) -> None:
    incidents, steps = replay(name, tmp_path)
    ends = steps.rows["end_wall_ns"]
    assert (ends[1:] - ends[:-1]).max() > 8 * NANOSECONDS  # it does pause
    assert len(steps) == 44
    assert [(incident["kind"], incident["summary"]) for incident in incidents] == []


def test_a_rank_that_sleeps_while_another_waits_for_it_is_said_within_seconds(
    tmp_path: Path,
) -> None:
    (incident,) = replay("stuck-rank", tmp_path)[0]
    assert (incident["kind"], incident["rank"]) == ("pause", 1)
    assert incident["cause"] == "not-arrived"
    assert incident["detected_after_seconds"] <= 10
