"""Which ranks can be profiled, against whom, and from which step on."""

from __future__ import annotations

from typing import Any

import pytest

from stepwatch.collector.web.profiles.placement import Asked, RefusedError, choose

PLACEMENT: dict[str, Any] = {
    "attempt": 3,
    "state": "degraded",
    "step": 100,
    "step_seconds": 0.5,
    "nodes": ["a", "a", "b", "b", "c", None],
    "stages": [0, 0, 0, 0, 1, 1],
    "ended": [],
    "incidents": [[2, "c0ffee"], [-1, "abcdef"]],
}
ASKED = Asked(2, None, 3, "ada")


def chosen(asked: Asked = ASKED, flush_seconds: float = 0.0, **change: Any) -> Any:
    return choose("llama", PLACEMENT | change, asked, flush_seconds)


def test_the_nearest_rank_of_the_stage_is_the_peer() -> None:
    wanted = chosen()
    assert (wanted.rank, wanted.node, wanted.peer, wanted.peer_node) == (2, "b", 1, "a")
    assert (wanted.attempt, wanted.steps, wanted.incidents) == (3, 3, ["c0ffee"])


def test_a_rank_with_an_incident_is_a_peer_only_if_there_is_no_other() -> None:
    assert chosen(incidents=[[1, "i1"], [3, "i3"]]).peer == 0
    assert chosen(incidents=[[0, "i0"], [1, "i1"], [3, "i3"]]).peer == 1


def test_an_ended_rank_is_no_peer() -> None:
    assert chosen(ended=[1]).peer == 3


def test_the_first_step_leaves_time_for_every_flush() -> None:
    assert chosen().first_step == 100 + 2 + 30
    assert chosen(flush_seconds=10.0).first_step == 100 + 2 + 70
    assert chosen(step_seconds=60.0).first_step == 103


@pytest.mark.parametrize(
    ("asked", "change", "message"),
    [
        (ASKED, {"state": "stalled"}, "`stepwatch diagnose llama` has the ranks' stacks"),
        (ASKED, {"state": "finished"}, "llama is finished"),
        (ASKED, {"state": "unknown"}, "llama is unknown"),
        (ASKED, {"step": None}, "no complete step yet"),
        (ASKED, {"step_seconds": None}, "no complete step yet"),
        (ASKED, {"ended": [2]}, "rank 2 has ended"),
        (ASKED._replace(peer=3), {"ended": [3]}, "rank 3 has ended"),
        (ASKED._replace(rank=6), {}, "there is no rank 6"),
        (ASKED._replace(peer=5), {}, "the node of rank 5 is not known"),
        (ASKED._replace(peer=2), {}, "cannot be compared with itself"),
        (ASKED._replace(rank=4), {}, "no other rank of rank 4's stage runs"),
        (ASKED, {"step_seconds": 120.0}, "a step takes 120 s"),
    ],
)
def test_ranks_that_make_no_profile_are_refused(
    asked: Asked, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(RefusedError, match=message):
        chosen(asked, **change)
