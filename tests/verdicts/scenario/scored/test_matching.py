from __future__ import annotations

from typing import Any

from stepwatch.signals.names import ALERT_HANG, ALERT_STRAGGLER
from tests.verdicts.scenario.examples import with_fault
from tests.verdicts.scenario.plan import FaultKind
from tests.verdicts.scenario.truth import expected

from .matching import match

SLOW = expected(with_fault(FaultKind.SLOW_COMPUTE, 2, effect=2.0))


def incident(
    kind: str = "straggler", rank: int = 2, opened_at: float = 60.0, **more: Any
) -> dict[str, Any]:
    """Return an incident as the collector's store holds it."""
    named = {"kind": kind, "rank": rank, "phase": "forward", "cause": "slow-compute"}
    fields = {"id": f"{kind}-{rank}", "merged_into": "", "node": "node-1", "summary": ""}
    fields |= {"severity": "alert", "alert": ALERT_STRAGGLER, "state": "open"}
    return {**named, **fields, "opened_at": opened_at, **more}


def test_a_right_verdict_is_right_in_everything() -> None:
    matched = match(SLOW, [incident()])
    (answer,) = matched.answers
    assert (answer.found, answer.rank, answer.phase, answer.cause) == (True, True, True, True)
    assert answer.seconds == 10.0
    assert not matched.false


def test_a_pause_that_became_a_hang_named_the_rank_when_it_opened() -> None:
    spins = expected(with_fault(FaultKind.HANG_BUSY, 2))
    begins = spins[0].begins
    hang = incident("hang", opened_at=begins + 482.0, cause="busy")
    pause = incident("pause", opened_at=begins + 122.0, cause="busy", merged_into=hang["id"])
    follows = incident("data-stall", -1, opened_at=begins + 200.0)
    matched = match(spins, [hang, pause, follows])
    assert matched.answers[0].seconds == 122.0
    assert not matched.false
    wrong_rank = {**pause, "rank": 1}
    assert match(spins, [hang, wrong_rank]).answers[0].seconds == 482.0


def test_a_wrong_rank_is_found_and_wrong_unless_a_better_one_is_there() -> None:
    (answer,) = match(SLOW, [incident(rank=0)]).answers
    assert answer.found
    assert answer.rank is False
    matched = match(SLOW, [incident(rank=0), incident(opened_at=70.0)])
    assert matched.answers[0].rank
    assert [false_incident["rank"] for false_incident in matched.false] == [0]


def test_what_opened_before_its_fault_is_false() -> None:
    matched = match(SLOW, [incident(opened_at=30.0)])
    assert not matched.answers[0].found
    assert len(matched.false) == 1


def test_what_follows_is_explained_only_once_the_fault_is_named() -> None:
    regression = incident("throughput-regression", -1, opened_at=80.0)
    assert not match(SLOW, [incident(), regression]).false
    assert len(match(SLOW, [incident(opened_at=90.0), regression]).false) == 1
    assert len(match(SLOW, [regression]).false) == 1


def test_a_second_incident_about_the_same_rank_is_counted_and_not_false() -> None:
    matched = match(SLOW, [incident(), incident(opened_at=90.0)])
    assert (len(matched.false), matched.repeated) == (0, 1)
    assert match(SLOW, [incident()]).repeated == 0


def test_everything_in_a_healthy_job_is_false_and_pages_are_counted() -> None:
    matched = match([], [incident(), incident("hang", alert=ALERT_HANG)])
    assert len(matched.false) == 2
    assert matched.pages == 1


def test_what_is_merged_into_another_is_not_counted() -> None:
    assert not match([], [incident(merged_into="another")]).false


def test_numbers_price_and_end_of_an_incident_are_compared_with_what_is_true() -> None:
    ends = expected(with_fault(FaultKind.SLOW_COMPUTE, 2, effect=2.0, seconds=60.0))
    (truth,) = ends
    assert truth.actual is not None and truth.ends == 110.0
    words = f"rank 2 is slow in forward since step {truth.actual.first_step}: 2 s (2.0x)"
    right = incident(summary=words, state="resolved", resolved_at=150.0)
    right["device_seconds_lost"] = truth.lost_seconds / 2
    (answer,) = match(ends, [right]).answers
    assert (answer.untrue, answer.ends, answer.over, answer.price) == ([], True, 40.0, 0.5)
    wrong = {**right, "state": "open", "summary": words.replace("2.0x", "1.0x")}
    (answer,) = match(ends, [wrong]).answers
    assert (answer.untrue, answer.over) == (["ratio 1/2"], float("inf"))
    (lasts,) = match(SLOW, [incident(summary=words, state="open")]).answers
    assert not lasts.ends and lasts.over != lasts.over
