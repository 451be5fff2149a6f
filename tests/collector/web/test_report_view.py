"""What a report says of nodes and of what incidents cost."""

from __future__ import annotations

from datetime import date
from typing import Any

from stepwatch.collector.slo.asked.rates import Rate, RateCard
from stepwatch.collector.store.accounts import AccountDay
from stepwatch.collector.web.report_view import report_document

DAY = 86_400


def incident(node: str, rank: int, lost: float, ratio: float | None, **more: str) -> dict[str, Any]:
    fields = {"id": f"{node}{rank}{lost}", "job": "llama", "opened_at": DAY + 10.0}
    return {
        **fields,
        "node": node,
        "rank": rank,
        "device_seconds_lost": lost,
        "throughput_lost_ratio": ratio,
        **more,
    }


def nodes_of(*incidents: dict[str, Any]) -> dict[str, tuple[int, float | None]]:
    days = [AccountDay("llama", DAY, "production", {"productive": 1})]
    document = report_document(days, incidents, DAY, 2 * DAY)
    return {
        node["node"]: (node["incidents"], node["device_seconds_lost"]) for node in document["nodes"]
    }


def test_what_a_node_cost_is_summed_over_its_ranks_and_over_itself() -> None:
    nodes = nodes_of(
        incident("gpu-1", 3, 40.0, 0.2),
        incident("gpu-1", -1, 60.0, 0.5, confidence="likely"),
        incident("gpu-2", 8, 0.0, 0.0),
    )
    assert nodes == {"gpu-1": (2, 100.0), "gpu-2": (1, 0.0)}


def test_what_is_not_known_to_cost_nothing_is_unknown() -> None:
    nodes = nodes_of(incident("gpu-1", 3, 0.0, None), incident("gpu-2", 4, 0.0, None))
    assert nodes == {"gpu-1": (1, None), "gpu-2": (1, None)}
    assert nodes_of(incident("gpu-1", 3, 0.0, None), incident("gpu-1", 4, 5.0, 0.1)) == {
        "gpu-1": (2, 5.0)
    }


def test_what_the_script_does_is_no_fault_of_its_node() -> None:
    for kind, cause in (
        ("pause", "not-arrived"),
        ("pause", "busy"),
        ("pause", "unknown"),
        ("hang", "process-stopped"),
        ("rank-failed", "exception"),
    ):
        assert nodes_of(incident("gpu-1", 3, 9.0, 0.5, kind=kind, cause=cause)) == {}
    for kind, cause in (
        ("pause", "storage-fault"),
        ("hang", "not-arrived"),
        ("straggler", "slow-compute"),
    ):
        nodes = nodes_of(incident("gpu-1", 3, 9.0, 0.5, kind=kind, cause=cause))
        assert nodes == {"gpu-1": (1, 9.0)}


def test_tokens_of_steps_that_count_none_are_unknown() -> None:
    def tokens(**day: int) -> int | None:
        days = [AccountDay("llama", DAY, "production", {"productive": 1, **day})]
        total_tokens: int | None = report_document(days, [], DAY, 2 * DAY)["total"]["tokens"]
        return total_tokens

    assert (tokens(steps=5, tokens=0), tokens(steps=5, tokens=9), tokens()) == (None, 9, 0)


def test_a_node_that_is_only_one_of_those_suspected_is_not_counted() -> None:
    assert nodes_of(incident("gpu-1", -1, 9.0, 1.0, confidence="one of")) == {}


def test_a_price_is_known_if_each_day_has_a_rate() -> None:
    hour = 3600 * 1_000_000
    days = [
        AccountDay("llama", DAY, "production", {"productive": hour, "stall": hour}),
        AccountDay("eval", DAY, "research", {"productive": hour}),
    ]
    card = RateCard("EUR", (Rate(date(1970, 1, 1), 2.0, "production"),))
    document = report_document(days, [], DAY, 2 * DAY, rates=card)
    prices = {job["job"]: job["cost"] for job in document["jobs"]}
    assert prices == {"llama": {"amount": 4.0, "currency": "EUR"}, "eval": None}
    assert document["total"]["cost"] is None, "a part without a rate has no price"
    assert report_document(days, [], DAY, 2 * DAY)["total"]["cost"] is None
