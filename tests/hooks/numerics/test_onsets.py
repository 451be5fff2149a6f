"""A loss that rises on real ranks has its numbers, and its reason where they show one."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Run, verdicts

pytest.importorskip("torch", reason="the ranks train with torch")


def facts(incident: dict[str, Any]) -> dict[str, tuple[float, str]]:
    """Values and references of an incident's evidence by name."""
    return {row["name"]: (row["value"], row["against"]) for row in incident["evidence"]}


def test_a_learning_rate_ten_times_as_high_is_named(replicas: Run) -> None:
    _, incidents = replicas(WAY="ddp", STEPS="128", OPTIMIZER="1", SCHEDULE="1", RATE="120,10")
    by_kind = {incident["kind"]: incident for incident in incidents}
    assert by_kind.keys() == {"loss-anomaly", "non-finite"}
    risen = by_kind["loss-anomaly"]
    assert (risen["cause"], risen["since_step"]) == ("learning-rate", 121)
    numbers = facts(risen)
    rate, against = numbers["learning rate"]
    assert rate == pytest.approx(12, rel=0.1)
    assert against.startswith("since step 120 12.2") and against.endswith("before it 1.226")
    norm, against = numbers["gradient norm"]
    assert norm > 10 * float(against.rpartition(" ")[2])
    assert numbers["tokens of the batch"] == (8.0, "median of the steps before 8")
    assert numbers["epoch"] == (1.0, "since step 100, before it 0")
    for incident in incidents:
        assert "the learning rate is 10.0x from step 120 on" in incident["summary"]


def test_a_healthy_warm_up_and_cosine_name_nothing(replicas: Run) -> None:
    _, incidents = replicas(WAY="ddp", STEPS="140", OPTIMIZER="1", SCHEDULE="1")
    assert incidents == []


def test_a_damaged_shard_is_named_with_its_rank(replicas: Run) -> None:
    _, incidents = replicas(4, WAY="ddp", STEPS="80", OPTIMIZER="1", DAMAGED_SHARD="21")
    assert verdicts(incidents) == [("loss-anomaly", "data-shard", -1, 70)]
    (incident,) = incidents
    assert "data shard 21, from step 70 on in rank 2 alone" in incident["summary"]
    assert facts(incident)["data shard of rank 2"] == (
        21,
        "since step 70, before it 20; the other ranks 1 to 31",
    )
