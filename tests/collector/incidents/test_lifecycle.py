"""The life of incidents under any sequence of findings."""

from __future__ import annotations

import itertools
import json
import math
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.collector.detect.finding import NO_RANK, Finding
from stepwatch.collector.incidents.cost import FLOOR
from stepwatch.collector.incidents.lifecycle import REOPEN_WITHIN_SECONDS
from stepwatch.collector.incidents.model import incident_from
from stepwatch.collector.incidents.states import ENDED, MERGED, OPEN, RESOLVED
from stepwatch.collector.incidents.transitions import (
    MAX_SYMPTOMS,
    MAX_TIMELINE,
    RESOLVE_AFTER_SECONDS,
)
from stepwatch.signals.names import ALERT_OF, Cause, FindingKind

from .story import BEGAN, Story, finding, slower


class Turn(NamedTuple):
    kinds: frozenset[tuple[FindingKind, int]]
    seconds: float
    step: int
    frozen: bool
    ended: bool
    attempt: int


TURNS = st.builds(
    Turn,
    st.frozensets(
        st.tuples(st.sampled_from(FindingKind), st.sampled_from([NO_RANK, 2])), max_size=3
    ),
    st.sampled_from([0.0, 0.5, 1.0, RESOLVE_AFTER_SECONDS, 100.0, REOPEN_WITHIN_SECONDS + 1]),
    st.integers(30, 31),
    st.booleans(),
    st.booleans(),
    st.integers(0, 1),
)


@settings(max_examples=200)
@given(st.lists(TURNS, max_size=25))
def test_any_story_keeps_its_promises(turns: list[Turn]) -> None:
    story = Story()
    for turn in turns:
        faults = [finding(kind, rank, turn.step, ago=story.now % 7) for kind, rank in turn.kinds]
        previous = dict(story.incidents)
        changed = story.turn(
            *faults,
            seconds=turn.seconds,
            frozen=turn.frozen,
            ended=turn.ended,
            attempt=turn.attempt,
        )
        for incident in changed:
            was = previous.get(incident.id)
            about_ranks = incident.kind != FindingKind.TELEMETRY_LOST.value
            same_attempt = incident.attempt == turn.attempt
            if turn.frozen and about_ranks and not turn.ended and same_attempt:
                pytest.fail(f"frozen, and yet {was and was.state} became {incident.state}")
            document = json.loads(json.dumps(incident.document(), allow_nan=False))
            assert incident_from(document).document() == document
            assert len(incident.timeline) <= MAX_TIMELINE
            assert (incident.resolved_at is None) == (incident.state == OPEN)
            assert bool(incident.merged_into) == (incident.state == MERGED)
            assert len(incident.symptoms) <= MAX_SYMPTOMS
            assert incident.key not in [symptom["key"] for symptom in incident.symptoms]
            if incident.state == MERGED:
                assert incident.merged_into in story.incidents
        open_ids = {item.key for item in story.incidents.values() if item.state == OPEN}
        told_of = [
            symptom["key"]
            for item in changed
            for symptom in item.symptoms
            if item.state == OPEN and symptom["seen_at"] == story.now
        ]
        assert len(told_of) == len(set(told_of)), "a symptom stands under one cause"
        assert not open_ids & set(told_of), "a symptom opens no incident"


def test_opened_with_all_that_is_known() -> None:
    story = Story()
    (opened,) = story.turn(finding())
    assert (opened.state, opened.rank, opened.node) == (OPEN, 2, "node-1")
    assert opened.began_at == story.now - 0.5 - 4.0
    assert opened.detected_after_seconds == 4.5
    assert opened.device_seconds_lost == pytest.approx(0.5 * 4.5 * 4)
    assert opened.runbook == ALERT_OF[FindingKind.STRAGGLER]
    document = opened.document()
    assert document["slowdown_ratio"] is None and document["evidence"][0]["value"] is None


def test_ids_are_those_of_every_replica() -> None:
    (first,), (second,) = Story().turn(finding()), Story().turn(finding())
    assert first.id == second.id
    assert len({item.id for item in (first, *Story().turn(finding(rank=1), finding(step=31)))}) == 3


def test_resolves_after_a_while_and_not_before() -> None:
    story = Story()
    story.turn(finding())
    assert story.turn(seconds=RESOLVE_AFTER_SECONDS - 1) == []
    story.turn(finding())
    assert story.turn(seconds=RESOLVE_AFTER_SECONDS - 1) == []
    (resolved,) = story.turn(seconds=1.0)
    assert resolved.state == RESOLVED and resolved.resolved_at == story.now
    assert story.turn() == []


def test_back_soon_is_the_same_incident_and_back_late_another() -> None:
    story = Story()
    (first,) = story.turn(finding())
    story.turn(seconds=RESOLVE_AFTER_SECONDS)
    (reopened,) = story.turn(finding(step=40), seconds=REOPEN_WITHIN_SECONDS - 1)
    assert (reopened.id, reopened.state, reopened.resolved_at) == (first.id, OPEN, None)
    assert [item["event"] for item in reopened.timeline][-2:] == ["resolved", "reopened"]
    assert reopened.device_seconds_lost - first.device_seconds_lost == pytest.approx(0.5 * 4.0 * 4)
    story.turn(seconds=2 * RESOLVE_AFTER_SECONDS)  # it was reopened once
    (second,) = story.turn(finding(step=90), seconds=REOPEN_WITHIN_SECONDS + 1)
    assert second.id != first.id and story.states() == [RESOLVED, OPEN]


def test_the_very_same_trouble_never_overwrites_its_own_past() -> None:
    """A hang that another verdict hid for long: the same step, the same beginning, the same id."""
    story = Story()

    def standing() -> Finding:
        return finding(FindingKind.HANG, ago=story.now + 1.0 - BEGAN + 60)

    (first,) = story.turn(standing())
    story.turn(seconds=RESOLVE_AFTER_SECONDS)
    story.now += REOPEN_WITHIN_SECONDS + 10
    (later,) = story.turn(standing())
    assert later.id == first.id
    assert later.device_seconds_lost > first.device_seconds_lost
    assert [item["event"] for item in later.timeline] == ["began", "opened", "resolved", "reopened"]


def test_two_findings_of_one_key_are_one_incident() -> None:
    story = Story()
    assert len(story.turn(finding(), finding(step=55))) == 1


def test_frozen_neither_opens_nor_resolves() -> None:
    story = Story()
    assert story.turn(finding(), frozen=True) == []
    story.turn(finding())
    missing = finding(FindingKind.TELEMETRY_LOST, NO_RANK, lost=math.nan)
    (lost,) = story.turn(missing, seconds=60, frozen=True)
    assert lost.kind == "telemetry-lost"
    assert story.states() == [OPEN, OPEN]
    (seen_again,) = story.turn(finding())[:1]
    assert seen_again.kind == "straggler" and seen_again.state == OPEN
    assert lost.device_seconds_lost == 0.0


def test_the_end_of_the_job_ends_what_is_open() -> None:
    story = Story()
    story.turn(finding(), finding(FindingKind.TELEMETRY_LOST, NO_RANK))
    story.turn(ended=True)
    assert story.states() == [ENDED, ENDED]
    assert story.turn(ended=True, seconds=100) == []


def test_a_new_attempt_ends_what_the_old_one_left_open() -> None:
    story = Story()
    story.turn(finding())
    changed = story.turn(finding(step=5), attempt=1)
    assert sorted(item.state for item in changed) == [ENDED, OPEN]
    assert len({item.key for item in changed}) == 2


def test_the_timeline_is_bounded() -> None:
    story = Story()
    causes = itertools.cycle([Cause.SLOW_COMPUTE, Cause.CPU_CONTENTION])
    for _ in range(MAX_TIMELINE + 50):
        story.turn(finding(FindingKind.HANG)._replace(cause=next(causes)))
    (incident,) = story.incidents.values()
    assert len(incident.timeline) == MAX_TIMELINE
    assert incident.timeline[0]["event"] == "began"


def test_documents_of_other_versions_are_read() -> None:
    (opened,) = Story().turn(finding())
    document = opened.document()
    assert incident_from({**document, "of_tomorrow": {"x": 1}}) == incident_from(document)
    fields = {name: document[name] for name in ("id", "key", "kind", "job", "attempt")}
    old = incident_from(fields)
    assert (old.id, old.state, old.rank, old.symptoms) == (opened.id, ENDED, NO_RANK, [])
    assert Story().turn(finding()) and json.dumps(old.document())
    for name in document:
        incident_from({key: value for key, value in document.items() if key != name})


def test_the_sentence_and_the_incident_name_the_same_first_step() -> None:
    story = Story()
    story.turn(finding(step=60)._replace(summary="rank 2 is slow since step 60: 1 s"))
    later = finding(step=128)._replace(summary="rank 2 is slow since step 128: 3 s, 128 times")
    story.turn(later)
    (incident,) = story.incidents.values()
    assert incident.since_step == 60
    assert incident.summary == "rank 2 is slow since step 60: 1 s"
    assert incident.summary_now == "rank 2 is slow since step 60: 3 s, 128 times"


def test_slowness_that_costs_next_to_nothing_opens_nothing() -> None:
    story = Story()
    for lost in (0.0, 0.01, FLOOR.informing_lost_ratio - 0.001):
        story.turn(finding(lost=lost))
    for lost in (0.0, 0.02, FLOOR.least_lost_ratio - 0.001):
        story.turn(slower()._replace(lost_ratio=lost))
    assert story.states() == []
    story.turn(finding(lost=0.01), finding(FindingKind.NON_FINITE, lost=0.0))
    assert [item.kind for item in story.incidents.values()] == ["non-finite"]


@pytest.mark.parametrize("lost", [math.nan, FLOOR.least_lost_ratio])
def test_an_unknown_cost_is_no_small_one(lost: float) -> None:
    story = Story()
    story.turn(finding(lost=lost))
    assert story.states() == [OPEN]


def test_an_open_incident_stays_while_it_costs_half_of_that() -> None:
    story = Story()
    story.turn(slower()._replace(lost_ratio=0.06))
    for _ in range(30):
        story.turn(slower()._replace(lost_ratio=0.03))
    assert story.states() == [OPEN]
    for _ in range(30):
        story.turn(slower()._replace(lost_ratio=0.02))
    assert story.states() == [RESOLVED]


def test_time_in_which_no_collector_looked_resolves_nothing() -> None:
    """A collector was down for 20 s: the incident resolved, and its symptom opened another."""
    story = Story()
    story.turn(finding(), slower())
    story.turn(slower(), seconds=RESOLVE_AFTER_SECONDS + 5.0, watched=0.0)
    assert story.states() == [OPEN], "it still explains its symptom"
    story.turn(seconds=RESOLVE_AFTER_SECONDS - 1.0, watched=RESOLVE_AFTER_SECONDS - 1.0)
    assert story.states() == [OPEN]
    story.turn(seconds=1.0, watched=RESOLVE_AFTER_SECONDS)
    assert story.states() == [RESOLVED]
