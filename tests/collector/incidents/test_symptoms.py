"""Symptoms and the incidents of their causes."""

from __future__ import annotations

import math

import pytest

from stepwatch.collector.detect.finding import NO_RANK
from stepwatch.collector.incidents.states import ENDED, MERGED, OPEN, RESOLVED
from stepwatch.collector.incidents.transitions import MAX_SYMPTOMS, RESOLVE_AFTER_SECONDS
from stepwatch.signals.names import Cause, FindingKind

from .story import Story, finding, slower


def test_a_symptom_stands_in_the_incident_of_its_cause_and_opens_none() -> None:
    story = Story()
    (cause,) = story.turn(slower(), finding())
    (symptom,) = cause.symptoms
    assert cause.kind == "straggler" and symptom["kind"] == "throughput-regression"
    assert (symptom["since_step"], symptom["seen_at"]) == (32, story.now)
    (later,) = story.turn(finding(), slower())
    assert later.symptoms[0]["first_seen_at"] == symptom["first_seen_at"] < story.now
    assert later.symptoms[0]["seen_at"] == story.now


def test_a_symptom_that_was_found_first_is_merged_when_its_cause_is_found() -> None:
    story = Story()
    (symptom,) = story.turn(slower())
    cause, merged = story.turn(slower(), finding())
    assert (merged.id, merged.state, merged.merged_into) == (symptom.id, MERGED, cause.id)
    assert merged.timeline[-1]["event"] == "merged" and merged.resolved_at == story.now
    assert cause.state == OPEN and cause.symptoms[0]["key"] == symptom.key
    story.turn(slower(), finding())
    assert story.states() == [MERGED, OPEN]


def test_a_symptom_is_merged_into_the_cause_that_the_end_of_its_attempt_shows() -> None:
    story = Story()
    hang = finding(FindingKind.HANG, step=115, ago=40.0)
    (symptom,) = story.turn(hang)
    failed = finding(FindingKind.RANK_FAILED, step=115, ago=2.0)
    cause, merged = story.turn(failed, ended=True)
    assert (merged.id, merged.state, merged.merged_into) == (symptom.id, MERGED, cause.id)
    assert (cause.kind, cause.state) == ("rank-failed", OPEN)


def test_what_ends_with_its_attempt_explains_nothing_of_the_end() -> None:
    story = Story()
    (grown,) = story.turn(finding(FindingKind.MEMORY_GROWTH))
    failed, ended = story.turn(finding(FindingKind.RANK_FAILED), ended=True)
    assert (failed.kind, failed.state) == ("rank-failed", OPEN)
    assert (ended.id, ended.state) == (grown.id, ENDED)


def test_a_symptom_that_outlives_its_cause_becomes_its_own() -> None:
    story = Story()
    story.turn(slower())
    story.turn(slower(), finding())
    for _ in range(int(RESOLVE_AFTER_SECONDS) - 1):
        story.turn(slower())
        assert story.states() == [MERGED, OPEN], "a detector that pauses changes nothing"
    story.turn(slower())
    assert story.states() == [OPEN, RESOLVED]
    assert [item.merged_into for item in story.incidents.values()] == ["", ""]


@pytest.mark.parametrize("frozen", [False, True], ids=["some-observed", "none-observed"])
def test_a_lost_node_is_one_incident_as_long_as_it_sends_nothing(*, frozen: bool) -> None:
    story = Story()
    lost = finding(FindingKind.HANG, NO_RANK)._replace(cause=Cause.NODE_LOST, node="node-1")
    silent = finding(FindingKind.TELEMETRY_LOST, NO_RANK)._replace(
        cause=Cause.NODE_STALE, node="node-1"
    )
    story.turn(lost)
    story.turn(lost, silent)
    for _ in range(10):  # the launcher ended the ranks that waited; a new node is not here yet
        story.turn(silent, seconds=60, frozen=frozen)
        assert story.states() == [OPEN]
    elsewhere = silent._replace(node="node-3")
    assert [item.kind for item in story.turn(elsewhere) if item.state == OPEN] == ["telemetry-lost"]
    story.turn()
    assert story.states() == [RESOLVED, RESOLVED]


def test_what_a_cause_costs_is_known_from_its_symptoms_where_it_cannot_say() -> None:
    story = Story()
    skew = finding(FindingKind.DATA_SKEW, lost=math.nan)
    (cause,) = story.turn(skew, finding(lost=0.25))
    assert cause.kind == "data-skew" and cause.throughput_lost_ratio == 0.25


def test_symptoms_are_bounded_and_the_newest_stay() -> None:
    story = Story()
    many = [
        finding(FindingKind.SLOW_COLLECTIVE, NO_RANK)._replace(subject=f"group-{number}")
        for number in range(MAX_SYMPTOMS + 5)
    ]
    story.turn(finding(), *many[:5])
    (cause,) = story.turn(finding(), *many[5:])
    assert len(cause.symptoms) == MAX_SYMPTOMS
    assert {item["seen_at"] for item in cause.symptoms} == {story.now}


def test_a_cheap_cause_of_an_expensive_symptom_opens() -> None:
    story = Story()
    story.turn(finding(lost=0.02), finding(FindingKind.THROUGHPUT_REGRESSION, NO_RANK, lost=0.3))
    assert [item.kind for item in story.incidents.values()] == ["straggler"]


def test_an_open_incident_whose_cheap_cause_is_found_goes_on_as_that_cause() -> None:
    story = Story()
    regression = finding(FindingKind.THROUGHPUT_REGRESSION, NO_RANK, lost=0.06)
    story.turn(regression)
    for _ in range(30):
        story.turn(regression._replace(lost_ratio=0.04), finding(lost=0.04))
    assert [(item.kind, item.state) for item in story.incidents.values()] == [
        ("throughput-regression", MERGED),
        ("straggler", OPEN),
    ]
