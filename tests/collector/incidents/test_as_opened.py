"""What opened an incident stays, with the present beside it; what costs little informs."""

from __future__ import annotations

from stepwatch.collector.detect.finding import LOST_SHARE, Confidence
from stepwatch.signals.names import Cause

from .test_lifecycle import Story, finding


def test_what_was_true_at_the_opening_stays_and_the_present_stands_beside_it() -> None:
    story = Story()
    story.turn(finding(lost=0.18))
    evidence = finding(lost=0.02).evidence[0]._replace(name="what is left")
    story.turn(finding(lost=0.02)._replace(summary="hardly slow", evidence=(evidence,)))
    (incident,) = story.incidents.values()
    assert (incident.throughput_lost_ratio, incident.throughput_lost_ratio_now) == (0.18, 0.02)
    assert (incident.summary, incident.summary_now) == ("rank 2 is slow", "hardly slow")
    assert [row["name"] for row in incident.evidence] == ["self time"]
    story.turn(finding(lost=0.02)._replace(cause=Cause.CPU_STEAL, summary="because of steal"))
    (incident,) = story.incidents.values()
    assert incident.summary == "because of steal", "its cause became known"


def test_which_one_of_several_it_is_is_said_once_it_is_known_and_stays() -> None:
    story = Story()
    one_of = finding(lost=0.18)._replace(confidence=Confidence.ONE_OF, summary="one of two is slow")
    for each in (one_of, finding(lost=0.18), one_of, finding(lost=0.18)):
        story.turn(each)
    (incident,) = story.incidents.values()
    assert incident.summary == "rank 2 is slow"
    story.turn(one_of)
    (incident,) = story.incidents.values()
    assert (incident.summary, incident.summary_now) == ("rank 2 is slow", "one of two is slow")


def test_what_costs_little_informs_until_it_costs_more() -> None:
    story = Story()
    story.turn(finding(lost=0.03))
    assert [item.severity for item in story.incidents.values()] == ["info"]
    story.turn(finding(lost=0.06))
    story.turn(finding(lost=0.03))
    assert [item.severity for item in story.incidents.values()] == ["alert"], "it does not flap"


def test_an_estimate_of_a_few_steps_gives_way_to_what_was_measured() -> None:
    story = Story()
    story.turn(finding(lost=0.2))
    measured = finding(lost=0.45).evidence[0]._replace(name=LOST_SHARE)
    for lost in (0.45, 0.3):
        story.turn(finding(lost=lost)._replace(evidence=(measured,)))
    (incident,) = story.incidents.values()
    assert (incident.throughput_lost_ratio, incident.throughput_lost_ratio_now) == (0.45, 0.3)
